// Package transcode is the operator `transcode`: it encodes a media file by a
// profile and publishes the result under its content key,
// derived/{profile}/{asset_sha256}.mp4, with a manifest beside it.
//
// The file at the public name is always the old one or the complete new one.
// An encode goes to a temporary name in the same folder, is verified against
// its input, hashed, synced and renamed. A later run trusts a file only when
// its manifest, its size and its hash agree; see DESIGN.md.
//
// It imports dag, executor/operator, executor/fault, executor/ffmpeg,
// executor/gpu and a YAML parser for profiles.yml.
package transcode
