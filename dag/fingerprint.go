package dag

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

// fingerprintText is how much of a message counts for the fingerprint, in
// bytes.
const fingerprintText = 2 << 10

// What differs between two failures of one cause. The order matters: an
// address is more than the digits in it.
var (
	varyQuoted  = regexp.MustCompile("\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`")
	varyAddress = regexp.MustCompile(`\b0[xX][0-9a-fA-F]+`)
	varyURL     = regexp.MustCompile(`\b[a-zA-Z][a-zA-Z0-9+.-]*://\S+`)
	varyPath    = regexp.MustCompile(`(?:[A-Za-z]:)?(?:[~.]{0,2}[/\\][^\s/\\:;,()\[\]{}<>|]+)+[/\\]?`)
	varyHex     = regexp.MustCompile(`\b[0-9a-fA-F]{4,}(?:-[0-9a-fA-F]{4,})+\b|\b[0-9a-fA-F]*[0-9][0-9a-fA-F]{6,}\b|\b[0-9a-fA-F]{7,}[0-9][0-9a-fA-F]*\b`)
	varyDigits  = regexp.MustCompile(`[0-9]+`)
	varyBlank   = regexp.MustCompile(`\s+`)
)

// Fingerprint groups failures of one cause: the same task failing with the
// same class, code and message, apart from what differs each time (numbers,
// hexadecimal ids, addresses, paths, quoted names). It is 32 hexadecimal
// digits.
func Fingerprint(class ErrorClass, code, message, dagID, taskID string) string {
	h := sha256.New()
	for _, part := range []string{string(class), code, dagID, taskID, normalMessage(message)} {
		// The length goes first, so that no two lists of parts look the same.
		_, _ = h.Write([]byte(strconv.Itoa(len(part)) + ":" + part)) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// normalMessage is what of a message stays the same each time.
func normalMessage(s string) string {
	s = cleanText(runeHead(s, fingerprintText))
	s = varyQuoted.ReplaceAllString(s, "<q>")
	s = varyAddress.ReplaceAllString(s, "<n>")
	s = varyURL.ReplaceAllString(s, "<path>")
	s = varyPath.ReplaceAllString(s, "<path>")
	s = varyHex.ReplaceAllString(s, "<n>")
	s = varyDigits.ReplaceAllString(s, "<n>")
	return strings.TrimSpace(varyBlank.ReplaceAllString(s, " "))
}
