package dag

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// CanonicalJSON writes a JSON value in its one canonical form: no white space,
// keys sorted, no HTML escaping, of a key that stands twice the last. Numbers
// keep the digits that they were written with. Text that is not one JSON value
// is an error.
func CanonicalJSON(v json.RawMessage) (json.RawMessage, error) {
	value, err := decodeExact(v)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return encodeExact(value)
}

// PayloadHash is the SHA-256, in hexadecimal, of a payload's canonical form;
// of its bytes as they are when it is not JSON.
func PayloadHash(payload json.RawMessage) string {
	canonical, err := CanonicalJSON(payload)
	if err != nil {
		canonical = payload
	}
	return hashHex(canonical)
}

func hashHex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// decodeExact reads one JSON value with numbers as json.Number.
func decodeExact(v []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(v))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	return value, nil
}

// encodeExact writes a value without escaping <, > and &. The encoder sorts
// the keys of mappings.
func encodeExact(value any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
