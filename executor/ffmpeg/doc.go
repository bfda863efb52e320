// Package ffmpeg is what Airlock knows about ffmpeg and ffprobe: versions,
// what a file holds, progress, stalls, what the words on stderr mean in each
// version, and whether an output is what its input promised.
//
// An exit status alone says little: 5.1 ends with 1 for every failure, later
// versions end with 8 or 255 for unrelated ones, and all of them end with 0
// after a damaged input. So a failure is named from five kinds of evidence, in
// this order: what we did to the process, the signal, stderr, the exit status,
// the output itself.
//
// It imports dag, executor/fault, dag/proc and the standard library.
package ffmpeg
