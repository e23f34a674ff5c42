package embedded

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// A record is a small value that is not on the path of a turn: a module's
// description or a deployment. It is JSON behind a CRC-32C of key and JSON.

func encodeRecord(key []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, text)
	return append(binary.BigEndian.AppendUint32(nil, sum), text...), nil
}

func decodeRecord(key, value []byte, v any) error {
	if len(value) < 4 {
		return fmt.Errorf("record %q is damaged: it has %d bytes", key, len(value))
	}
	text := value[4:]
	if crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, text) != binary.BigEndian.Uint32(value) {
		return fmt.Errorf("record %q is damaged: its checksum is wrong", key)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("record %q is damaged: %w", key, err)
	}
	return nil
}
