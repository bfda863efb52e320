// Package python is the operator that calls a Python function in a python3
// process of its own, by a small script that is part of this package. The
// branch and short_circuit operators use it for their Python forms.
//
// It may import dag, dag/render, executor/operator and its command package, and
// executor/fault.
package python
