// Package adf reads pipelines of Azure Data Factory, as its editor or an ARM
// template exports them, and writes DAG files with the same meaning: activities
// become tasks, their policies retries and time limits, and a copy's tolerance of
// bad rows the limits of a merge step.
//
// It imports the standard library, dag and the YAML library.
package adf
