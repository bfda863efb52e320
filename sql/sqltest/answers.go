package sqltest

import (
	"bytes"
	"encoding/binary"
)

// EndsInCommit tells whether what a client sends a server is a COMMIT, or
// statements with one behind them. 0x03 is the protocol's command for a statement.
func EndsInCommit(packet []byte) bool {
	return bytes.HasSuffix(packet, []byte("\x03COMMIT")) || bytes.HasSuffix(packet, []byte("; COMMIT"))
}

// Answers follows a server's answers to statements that give no rows, as its
// protocol has them: packets of a length (3 bytes), a number, and 0x00 (OK) or
// 0xff (error), which is the last.
type Answers struct{ rest []byte }

// moreResults is SERVER_MORE_RESULTS_EXISTS in the status of an OK.
const moreResults = 8

// Done takes what came from the server, and tells whether that was all.
func (a *Answers) Done(part []byte) bool {
	a.rest = append(a.rest, part...)
	for len(a.rest) >= 4 {
		size := int(a.rest[0]) | int(a.rest[1])<<8 | int(a.rest[2])<<16
		if len(a.rest) < 4+size {
			return false
		}
		packet := a.rest[4 : 4+size]
		a.rest = a.rest[4+size:]
		if len(packet) == 0 || packet[0] != 0 {
			return true
		}
		packet = skipNumber(skipNumber(packet[1:])) // rows, id
		if len(packet) < 2 || binary.LittleEndian.Uint16(packet)&moreResults == 0 {
			return true
		}
	}
	return false
}

// skipNumber skips a number of the protocol: one byte, or a mark and 2, 3 or 8.
func skipNumber(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	size := 1
	switch b[0] {
	case 0xfc:
		size = 3
	case 0xfd:
		size = 4
	case 0xfe:
		size = 9
	}
	return b[min(size, len(b)):]
}
