// Package s3test runs a real S3 server (Versity's gateway over a folder) on a
// free port for a test, and looks into it.
//
// It imports the S3 client; only tests import it.
package s3test
