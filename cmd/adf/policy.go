package adf

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Defaults of a policy in Data Factory.
const (
	defaultTimeout  = "12h"
	defaultInterval = 30
)

// policy writes an activity's policy. All three limits are written, also where
// the pipeline leaves them to Data Factory's defaults: the DAG's own are others.
func (c *converter) policy(w *writer, a node) {
	p := a.get("policy")
	c.known(p, "the policy", "timeout", "retry", "retryIntervalInSeconds", "secureInput", "secureOutput")
	timeout := defaultTimeout
	if n := p.get("timeout"); n.n != nil {
		var err error
		if timeout, err = duration(n.text()); err != nil {
			c.err(n, "timeout: %s", err)
		}
	}
	w.line(3, "execution_timeout: %s", timeout)
	w.line(3, "retries: %d", c.whole(p.get("retry"), "retry", 0, 0, 1<<31-1))
	w.line(3, "retry_delay: %d", c.whole(p.get("retryIntervalInSeconds"), "retryIntervalInSeconds", defaultInterval, 30, 86400))
	if c.flag(p.get("secureOutput"), "secureOutput") {
		w.line(3, "do_xcom_push: false  # secureOutput: nothing of the result is kept")
	}
	if n := p.get("secureInput"); c.flag(n, "secureInput") {
		c.warn(n, "secureInput: a task's arguments can be read in its letters and logs, apart from passwords of connections and keys that look like secrets; put what is secret into a connection")
	}
}

var timeSpan = regexp.MustCompile(`^(?:(\d+)\.)?(\d{1,2}):([0-5]\d):([0-5]\d)(?:\.\d+)?$`)

// duration reads "02:00:00" and "7.00:00:00".
func duration(text string) (string, error) {
	m := timeSpan.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return "", fmt.Errorf("%q is no time span; write hh:mm:ss or d.hh:mm:ss", text)
	}
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi("0" + m[i+1])
	}
	if n[1] > 23 {
		return "", fmt.Errorf("%q has %d hours; from 24 on they are days: d.hh:mm:ss", text, n[1])
	}
	seconds := n[0]*86400 + n[1]*3600 + n[2]*60 + n[3]
	if seconds == 0 {
		return "", fmt.Errorf("%q leaves no time at all", text)
	}
	out := ""
	for _, u := range []struct {
		seconds int
		unit    string
	}{{3600, "h"}, {60, "m"}, {1, "s"}} {
		if k := seconds / u.seconds; k > 0 {
			out += strconv.Itoa(k) + u.unit
		}
		seconds %= u.seconds
	}
	return out, nil
}

func (c *converter) whole(n node, name string, fallback, lo, hi int) int {
	if n.n == nil {
		return fallback
	}
	if n.get("value").n != nil {
		c.err(n, "%s is an expression; write the number", name)
		return fallback
	}
	v, err := strconv.Atoi(n.text())
	if err != nil || v < lo || v > hi {
		c.err(n, "%s: a whole number from %d to %d is needed, found %q", name, lo, hi, n.text())
		return fallback
	}
	return v
}

func (c *converter) flag(n node, name string) bool {
	if n.n == nil {
		return false
	}
	switch strings.ToLower(n.text()) {
	case "true":
		return true
	case "false":
		return false
	}
	c.err(n, "%s: true or false is needed, found %s", name, n.json())
	return false
}
