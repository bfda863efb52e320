// Package expression evaluates the conditions that steps write as one line:
// `value > 10`, `response.status_code == 201`. The language is expr-lang's;
// it reads data and calls nothing outside.
//
// It may import executor/operator/condition and expr-lang.
package expression
