package dag

// ExternalRun is the run of another DAG as somebody sees it who waits for it.
type ExternalRun struct {
	Run Run `json:"run"`
	// States counts the run's instances by task id and state. A mapped task that
	// is expanded has one for each of its instances.
	States map[string]map[State]int `json:"states"`
}
