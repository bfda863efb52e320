package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// fernet encrypts small secrets as Airflow does: version byte 0x80, eight bytes
// of time, a random block, AES-128-CBC, and HMAC-SHA256 over all of it, in
// URL-safe base64. Several keys make a rotation: the first encrypts, any
// decrypts.
type fernet struct {
	keys [][]byte // 32 bytes each: 16 to sign, 16 to encrypt
	rand io.Reader
}

const (
	fernetVersion  = 0x80
	fernetOverhead = 1 + 8 + aes.BlockSize + sha256.Size
)

// newFernet reads keys separated by commas; nil for none.
func newFernet(keys string) (*fernet, error) {
	f := &fernet{rand: rand.Reader}
	for k := range strings.SplitSeq(keys, ",") {
		k = strings.TrimSpace(k)
		if k == "" {
			continue
		}
		raw, err := decodeBase64(k)
		if err != nil || len(raw) != 32 {
			return nil, &dag.Error{
				Code: dag.ErrInvalid, Op: "Fernet key", Hint: "it is 32 random bytes in URL-safe base64, 44 characters",
				Err: fmt.Errorf("key %d is not one", len(f.keys)+1),
			}
		}
		f.keys = append(f.keys, raw)
	}
	if len(f.keys) == 0 {
		return nil, nil
	}
	return f, nil
}

func decodeBase64(s string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
}

// encrypt makes the token of a text.
func (f *fernet) encrypt(text string, at time.Time) (string, error) {
	iv := make([]byte, aes.BlockSize)
	if _, err := io.ReadFull(f.rand, iv); err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	return f.seal(text, at, iv)
}

func (f *fernet) seal(text string, at time.Time, iv []byte) (string, error) {
	block, err := aes.NewCipher(f.keys[0][16:])
	if err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	padding := aes.BlockSize - len(text)%aes.BlockSize
	padded := append([]byte(text), make([]byte, padding)...)
	for i := len(text); i < len(padded); i++ {
		padded[i] = byte(padding)
	}
	out := make([]byte, 0, fernetOverhead+len(padded))
	out = append(out, fernetVersion)
	out = binary.BigEndian.AppendUint64(out, uint64(at.Unix()))
	out = append(out, iv...)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(padded, padded)
	out = append(out, padded...)
	out = append(out, sign(f.keys[0][:16], out)...)
	return base64.URLEncoding.EncodeToString(out), nil
}

func sign(key, data []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(data)
	return m.Sum(nil)
}

var errToken = errors.New("the stored secret was not made with this Fernet key, or is damaged")

// decrypt reads a token, of any age.
func (f *fernet) decrypt(token string) (string, error) {
	raw, err := decodeBase64(token)
	if err != nil || len(raw) < fernetOverhead+aes.BlockSize || raw[0] != fernetVersion {
		return "", errToken
	}
	body, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	for _, key := range f.keys {
		if !hmac.Equal(mac, sign(key[:16], body)) {
			continue
		}
		block, err := aes.NewCipher(key[16:])
		if err != nil {
			return "", fmt.Errorf("decrypt: %w", err)
		}
		data := append([]byte(nil), body[1+8+aes.BlockSize:]...)
		if len(data)%aes.BlockSize != 0 {
			return "", errToken
		}
		cipher.NewCBCDecrypter(block, body[9:9+aes.BlockSize]).CryptBlocks(data, data)
		return unpad(data)
	}
	return "", errToken
}

func unpad(data []byte) (string, error) {
	n := int(data[len(data)-1])
	if n < 1 || n > aes.BlockSize || n > len(data) {
		return "", errToken
	}
	for _, b := range data[len(data)-n:] {
		if int(b) != n {
			return "", errToken
		}
	}
	return string(data[:len(data)-n]), nil
}
