package dag

import "time"

// PythonTime is an instant in UTC as Python writes it, and so as Airflow's run
// ids, hashes and templates hold it: date and time parted by sep ("T" for
// isoformat, " " for str), microseconds only where there are some, and the
// offset with a colon.
func PythonTime(t time.Time, sep string) string {
	layout := "2006-01-02" + sep + "15:04:05"
	if t.Nanosecond()/1000 != 0 {
		layout += ".000000"
	}
	return t.UTC().Format(layout + "-07:00")
}
