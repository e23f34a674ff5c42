package codec

// Raw is a message that its handler reads and writes: one of a guest's Protobuf service, which the
// host passes on.
type Raw struct {
	Data []byte
	// JSON reports whether a request that was read is in the JSON form; its response is as well.
	JSON bool
}

// RawBinary is [Binary], and for messages that are Raw their bytes as they are.
type RawBinary struct{ Binary }

// Marshal implements connect.Codec.
func (c RawBinary) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend spares Connect a buffer.
func (c RawBinary) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	if raw, ok := msg.(*Raw); ok {
		return append(dst, raw.Data...), nil
	}
	return c.Binary.MarshalAppend(dst, msg)
}

// Unmarshal implements connect.Codec. The message has bytes of its own: Connect uses data again.
func (c RawBinary) Unmarshal(data []byte, msg any) error {
	if raw, ok := msg.(*Raw); ok {
		raw.Data = append([]byte(nil), data...)
		return nil
	}
	return c.Binary.Unmarshal(data, msg)
}

// RawJSON is [JSON], and for messages that are Raw their text as it is.
type RawJSON string

// Name implements connect.Codec.
func (c RawJSON) Name() string { return string(c) }

// Marshal implements connect.Codec.
func (c RawJSON) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend spares Connect a buffer.
func (c RawJSON) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	if raw, ok := msg.(*Raw); ok {
		return append(dst, raw.Data...), nil
	}
	return JSON(c).MarshalAppend(dst, msg)
}

// Unmarshal implements connect.Codec. The message has bytes of its own: Connect uses data again.
func (c RawJSON) Unmarshal(data []byte, msg any) error {
	raw, ok := msg.(*Raw)
	if !ok {
		return JSON(c).Unmarshal(data, msg)
	}
	raw.Data, raw.JSON = append([]byte(nil), data...), true
	return nil
}
