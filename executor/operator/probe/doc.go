// Package probe is the operator `probe`: it looks into a media file, hashes it,
// and either says what it holds or seals it with the reason why it holds
// nothing of use.
//
// It imports dag, executor/operator, executor/fault and executor/ffmpeg.
package probe
