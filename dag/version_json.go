package dag

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// EncodeDAG is a DAG as a version stores it, and the SHA-256 in hexadecimal
// that names the version.
func EncodeDAG(d *DAG) (content json.RawMessage, hash string, err error) {
	content, err = encodeExact(d)
	if err != nil {
		return nil, "", fmt.Errorf("DAG %s as JSON: %w", d.ID, err)
	}
	return content, hashHex(content), nil
}

// DecodeDAG reads what EncodeDAG wrote. Numbers inside Args, Params and Expand
// come back as json.Number, with the digits that were written, whatever type
// they had before.
func DecodeDAG(content []byte) (*DAG, error) {
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.UseNumber()
	var d DAG
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("DAG from JSON: %w", err)
	}
	return &d, nil
}
