package envelope

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// Reseal returns data with the magic and the checksum that it should have.
func Reseal(data []byte) []byte {
	data = bytes.Clone(data)
	copy(data, Magic)
	end := len(data) - checksumLen
	binary.LittleEndian.PutUint32(data[end:], crc32.Checksum(data[:end], castagnoli))
	return data
}
