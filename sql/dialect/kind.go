package dialect

import (
	"fmt"
	"strings"
)

// Kind is a brand of database.
type Kind string

// Brands of database.
const (
	SQLite  Kind = "sqlite"
	MySQL   Kind = "mysql"
	MariaDB Kind = "mariadb"
)

// Version is a server's version number.
type Version struct{ Major, Minor, Patch int }

// String is major.minor.patch.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// AtLeast compares versions.
func (v Version) AtLeast(major, minor, patch int) bool {
	w := Version{major, minor, patch}
	switch {
	case v.Major != w.Major:
		return v.Major > w.Major
	case v.Minor != w.Minor:
		return v.Minor > w.Minor
	default:
		return v.Patch >= w.Patch
	}
}

// parseVersion reads what VERSION() says: "10.11.19-MariaDB-0+deb12u1", "9.7.4".
// Old replication clients prefix MariaDB's with "5.5.5-".
func parseVersion(s string) (Kind, Version) {
	kind := MySQL
	if strings.Contains(strings.ToLower(s), "mariadb") {
		kind = MariaDB
		s = strings.TrimPrefix(s, "5.5.5-")
	}
	var v Version
	// A short or odd text leaves zeros, which no capability accepts.
	_, _ = fmt.Sscanf(s, "%d.%d.%d", &v.Major, &v.Minor, &v.Patch)
	return kind, v
}

// Caps is what a server can do beyond what all three have.
type Caps struct {
	// SkipLocked: SELECT .. FOR UPDATE SKIP LOCKED (and NOWAIT).
	SkipLocked bool
	// InsertReturning: INSERT .. RETURNING.
	InsertReturning bool
	// UpdateReturning: UPDATE .. RETURNING.
	UpdateReturning bool
	// RowLocks: writers of different rows do not wait for each other.
	RowLocks bool
	// TransactionalDDL: CREATE and ALTER TABLE are undone by a rollback. Where
	// it is false they commit the open transaction silently.
	TransactionalDDL bool
	// MaxParams is the greatest number of ? in one statement.
	MaxParams int
}

func capsOf(k Kind, v Version) Caps {
	switch k {
	case SQLite:
		return Caps{InsertReturning: true, UpdateReturning: true, TransactionalDDL: true, MaxParams: 32766}
	case MariaDB:
		return Caps{
			SkipLocked: v.AtLeast(10, 6, 0), InsertReturning: v.AtLeast(10, 5, 0), UpdateReturning: v.AtLeast(13, 0, 0),
			RowLocks: true, MaxParams: 65535,
		}
	default:
		return Caps{SkipLocked: v.AtLeast(8, 0, 1), RowLocks: true, MaxParams: 65535}
	}
}
