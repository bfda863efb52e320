// Package upload is the operator `upload`: it puts one file under one key into
// a folder, a bucket of an S3-compatible store, or below an HTTP address, once.
//
// A key is looked at before anything is sent: the same content there is a skip,
// other content an error. The write itself is conditional (If-None-Match, or a
// rename that does not replace), so that of two workers with one key one
// publishes and the other one skips. What the store holds afterwards is
// compared with what was sent.
//
// The client for S3 is aws-sdk-go-v2/service/s3 (Apache-2.0, v1.114.10 of
// 2026-11-10). Beside minio-go v7 (Apache-2.0, v7.4.1 of 2026-10-12), which adds
// 1.7 MB to a static binary where this one adds 2.4 MB, it has conditional
// writes and SHA-256 checksums as typed fields of PutObject, UploadPart and
// CompleteMultipartUpload, lets its own retries be turned off (one attempt here
// must be one attempt there), and gives the whole answer with an error: the
// Retry-After header is needed. It brings 9 modules where minio-go brings 14.
// Folders and HTTP need no more than the standard library.
//
// It may import dag, executor/fault, executor/operator, the package httpcall
// beside it and the S3 client, which no other package sees.
package upload
