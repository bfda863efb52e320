package store

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// The vector that the Fernet specification publishes.
const (
	specKey   = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4="
	specToken = "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA=="
)

func TestFernetVector(t *testing.T) {
	t.Parallel()
	f, err := newFernet(specKey)
	require.NoError(t, err)
	iv := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	at := time.Date(1985, 10, 26, 1, 20, 0, 0, time.FixedZone("", -7*3600))
	token, err := f.seal("hello", at, iv)
	require.NoError(t, err)
	require.Equal(t, specToken, token)
	text, err := f.decrypt(specToken)
	require.NoError(t, err)
	require.Equal(t, "hello", text)
}

func TestFernetRefusesDamagedTokens(t *testing.T) {
	t.Parallel()
	f, err := newFernet(specKey)
	require.NoError(t, err)
	raw, err := base64.URLEncoding.DecodeString(specToken)
	require.NoError(t, err)
	for _, token := range []string{"", "hello", "%%%", specToken[:40], base64.URLEncoding.EncodeToString(raw[:len(raw)-1])} {
		_, err := f.decrypt(token)
		require.ErrorIs(t, err, errToken)
	}
	for i := range raw {
		bad := append([]byte(nil), raw...)
		bad[i] ^= 1
		_, err := f.decrypt(base64.URLEncoding.EncodeToString(bad))
		require.ErrorIs(t, err, errToken, "byte %d", i)
	}
	// A right signature over a payload that was not padded.
	body := append([]byte(nil), raw[:len(raw)-32]...)
	body[len(body)-1] ^= 1
	_, err = f.decrypt(base64.URLEncoding.EncodeToString(append(body, sign(f.keys[0][:16], body)...)))
	require.ErrorIs(t, err, errToken)
	short := body[:len(body)-3]
	_, err = f.decrypt(base64.URLEncoding.EncodeToString(append(append([]byte(nil), short...), sign(f.keys[0][:16], short)...)))
	require.ErrorIs(t, err, errToken)
}

func TestFernetKeysAndTexts(t *testing.T) {
	t.Parallel()
	none, err := newFernet(" , ")
	require.NoError(t, err)
	require.Nil(t, none)
	for _, bad := range []string{"x", "cw_0x689RpI", strings.Repeat("A", 100), "**" + specKey[2:]} {
		_, err := newFernet(bad)
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
		require.NotContains(t, err.Error(), bad)
	}
	const other = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	old, err := newFernet(specKey)
	require.NoError(t, err)
	both, err := newFernet(other + "," + strings.TrimRight(specKey, "="))
	require.NoError(t, err)
	for n := range 70 {
		text := strings.Repeat("é", n)
		token, err := old.encrypt(text, time.Unix(0, 0))
		require.NoError(t, err)
		got, err := both.decrypt(token)
		require.NoError(t, err)
		require.Equal(t, text, got)
		token, err = both.encrypt(text, time.Unix(0, 0))
		require.NoError(t, err)
		_, err = old.decrypt(token)
		require.ErrorIs(t, err, errToken, "the first key encrypts")
	}
}
