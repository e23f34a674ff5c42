package pgproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// errCut ends a session on purpose.
var errCut = errors.New("pgproxy: connection cut")

// maxMessage is far above what a test sends.
const maxMessage = 64 << 20

// message is one of the protocol, with its kind and length.
type message []byte

func (m message) kind() byte { return m[0] }

func (m message) body() []byte { return m[5:] }

// asksClient reports a request for a password or the like.
func (m message) asksClient() bool {
	if m.kind() != 'R' || len(m.body()) < 4 {
		return false
	}
	const ok, saslFinal = 0, 12
	code := binary.BigEndian.Uint32(m.body())
	return code != ok && code != saslFinal
}

func readMessage(r *bufio.Reader) (message, error) {
	head, err := r.Peek(5)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n < 4 || n > maxMessage {
		return nil, errors.New("pgproxy: a message of a length that cannot be")
	}
	m := make(message, 1+n)
	_, err = io.ReadFull(r, m)
	return m, err
}

// readStartup reads the first message, which has no kind.
func readStartup(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < 8 || n > 1<<16 {
		return nil, errors.New("pgproxy: a start-up message of a length that cannot be")
	}
	m := make([]byte, n)
	_, err = io.ReadFull(r, m)
	return m, err
}

func isCancel(startup []byte) bool {
	const cancelRequest = 80877102
	return binary.BigEndian.Uint32(startup[4:]) == cancelRequest
}

// cancelKey returns what a request to cancel names its session by: the body of
// the server's BackendKeyData.
func cancelKey(cancel []byte) string { return string(cancel[8:]) }

func newMessage(kind byte, body ...byte) message {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body))), body...)
}

var (
	syncMessage  = newMessage('S')
	flushMessage = newMessage('H')
)

func queryMessage(sql string) message { return newMessage('Q', append([]byte(sql), 0)...) }

func readyMessage(status byte) message { return newMessage('Z', status) }

func errorMessage(severity, code string) message {
	fields := "S" + severity + "\x00V" + severity + "\x00C" + code + "\x00Minjected\x00\x00"
	return newMessage('E', []byte(fields)...)
}

// unit is a [Unit] with its bytes.
type unit struct {
	Unit
	bytes      []byte
	executions int
	answered   bool // the server answers it up to ReadyForQuery
	auth       bool
}

// readUnit reads what a client sends at once. prepared has the session's
// statements by name.
func readUnit(r *bufio.Reader, prepared map[string]string) (unit, error) {
	var u unit
	bound := make(map[string]string) // by portal
	var sql []string
	for {
		m, err := readMessage(r)
		if err != nil {
			return u, err
		}
		u.bytes = append(u.bytes, m...)
		switch m.kind() {
		case 'P':
			name, rest := cString(m.body())
			text, _ := cString(rest)
			prepared[name] = text
		case 'B':
			portal, rest := cString(m.body())
			name, rest := cString(rest)
			bound[portal] = prepared[name]
			u.Rows += firstArray(rest)
		case 'E':
			u.executions++
			portal, _ := cString(m.body())
			sql = append(sql, bound[portal])
		case 'Q':
			text, _ := cString(m.body())
			sql = append(sql, text)
		}
		switch m.kind() {
		case 'Q', 'S':
			u.SQL, u.answered = strings.Join(sql, ";\n"), true
			return u, nil
		case 'p':
			u.auth = true
			return u, nil
		case 'X':
			return u, nil
		}
	}
}

func cString(b []byte) (string, []byte) {
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return "", nil
	}
	return string(b[:end]), b[end+1:]
}

// firstArray returns the length of the first parameter, an array in binary form;
// 1 for text, which a statement for one row begins with, 0 for anything else. b
// begins with the parameter formats of a Bind.
func firstArray(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	formats := int(binary.BigEndian.Uint16(b))
	if formats > 0 && binary.BigEndian.Uint16(b[2:]) == 0 {
		return 1
	}
	if len(b) < 2+2*formats+2+4+20 || formats == 0 {
		return 0
	}
	b = b[2+2*formats+2+4:]
	// Dimensions, flags, element type, and the length of the first dimension.
	if dimensions := binary.BigEndian.Uint32(b); dimensions != 1 {
		return 0
	}
	return int(binary.BigEndian.Uint32(b[12:]))
}
