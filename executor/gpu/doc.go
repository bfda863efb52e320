// Package gpu finds out what a machine can encode with: which devices it has,
// which encoders work on them, and how many sessions may run at once.
//
// That a build of ffmpeg lists an encoder says nothing: an encoder is usable
// when a small real encode with it has worked. The answer is kept for one
// ffmpeg, driver and device, and asked again after a failure and after a while.
//
// A slot belongs to a device's UUID (or a MIG UUID), never to an index: the
// order of indexes is not fixed.
//
// It imports dag, executor/ffmpeg, dag/proc and the standard library. No
// part of it needs a GPU to build or to run.
package gpu
