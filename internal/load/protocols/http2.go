package protocols

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"strconv"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/teescope/teescope/internal/load"
)

// http2 is HTTP/2 (RFC 9113): over TLS by ALPN, else with prior knowledge. Frames and
// headers are those of golang.org/x/net.
var http2 = load.Protocol{
	Name: "http2",
	Doc:  "HTTP/2: GET of --path on --pipeline streams at once; answers are checked as in http1.",
	ALPN: "h2",
	Open: func(a load.Ask) (load.Dialect, error) {
		if err := checkHTTP(a); err != nil {
			return nil, err
		}
		d := &http2Dialect{host: a.Host, path: a.Path}
		d.asked = "GET " + a.Path
		return d, nil
	},
}

type http2Dialect struct {
	same
	host, path string
}

// Flow control windows: the maximum, so the server waits only for the network. The
// connection's window is renewed when half of it is used.
const (
	streamWindow     = 1<<31 - 1
	connectionWindow = 1<<31 - 1
	defaultWindow    = 1<<16 - 1
	frameHead        = 9
	mostFrame        = 1 << 14 // the minimum that everyone accepts; more is never requested
)

func (d *http2Dialect) Begin(_ context.Context, conn net.Conn, _ uint64) (load.Session, net.Conn, error) {
	s := &http2Session{d: d, streams: map[uint32]*stream{}}
	s.scheme = "http"
	if _, ok := conn.(*tls.Conn); ok {
		s.scheme = "https"
	}
	s.encoder = hpack.NewEncoder(&s.headers)
	s.decoder = hpack.NewDecoder(4096, nil)
	s.framer = xhttp2.NewFramer(&s.control, &s.in)
	s.framer.SetMaxReadFrameSize(mostFrame)
	s.framer.ReadMetaHeaders = s.decoder
	s.framer.MaxHeaderListSize = mostHead
	s.control.WriteString(xhttp2.ClientPreface)
	err := errors.Join(
		s.framer.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingEnablePush, Val: 0}, xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: streamWindow}),
		s.framer.WriteWindowUpdate(0, connectionWindow-defaultWindow))
	return s, conn, err
}

type stream struct {
	status int
	got    body
}

type http2Session struct {
	d       *http2Dialect
	scheme  string
	sent    uint64 // requests
	used    uint32 // of the connection's window
	last    bool
	streams map[uint32]*stream
	headers bytes.Buffer
	control bytes.Buffer // what is sent before the next request
	in      bytes.Reader // one frame, or a header block's frames
	framer  *xhttp2.Framer
	encoder *hpack.Encoder
	decoder *hpack.Decoder
}

func (s *http2Session) Request(b []byte) []byte {
	s.headers.Reset()
	for _, f := range [...]hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: s.scheme}, {Name: ":authority", Value: s.d.host}, {Name: ":path", Value: s.d.path}} {
		_ = s.encoder.WriteField(f) // to a buffer in memory
	}
	id := uint32(2*s.sent + 1)
	s.sent++
	s.streams[id] = &stream{}
	_ = s.framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: s.headers.Bytes(), EndHeaders: true, EndStream: true})
	b = append(b, s.control.Bytes()...)
	s.control.Reset()
	return b
}

// seq is the place of the request on a stream.
func seq(id uint32) uint64 { return uint64(id-1) / 2 }

// lastStream is the last stream used of a connection's 2^30.
const lastStream = 1 << 30

func (s *http2Session) Answer(b []byte) (int, load.Answer, error) {
	n, err := whole(b)
	if err != nil || n == 0 {
		return 0, load.Answer{}, err
	}
	s.in.Reset(b[:n])
	f, err := s.framer.ReadFrame()
	if err != nil {
		return 0, load.Answer{}, fmt.Errorf("HTTP/2: read a frame: %w", err)
	}
	a, err := s.frame(f)
	return n, a, err
}

// whole is the length of the first frame, including its header continuations; 0 if it
// is incomplete.
func whole(b []byte) (int, error) {
	for at := 0; len(b)-at >= frameHead; {
		size := int(b[at])<<16 | int(binary.BigEndian.Uint16(b[at+1:]))
		if size > mostFrame || at > load.MostBuffered {
			return 0, errors.New("HTTP/2: a frame is too large")
		}
		kind, flags := xhttp2.FrameType(b[at+3]), xhttp2.Flags(b[at+4])
		if at += frameHead + size; at > len(b) {
			return 0, nil
		}
		if kind != xhttp2.FrameHeaders && kind != xhttp2.FrameContinuation || flags.Has(xhttp2.FlagHeadersEndHeaders) {
			return at, nil
		}
	}
	return 0, nil
}

func (s *http2Session) frame(f xhttp2.Frame) (load.Answer, error) {
	id := f.Header().StreamID
	st := s.streams[id]
	switch f := f.(type) {
	case *xhttp2.SettingsFrame:
		if !f.IsAck() {
			if v, ok := f.Value(xhttp2.SettingHeaderTableSize); ok {
				s.encoder.SetMaxDynamicTableSizeLimit(v)
			}
			return load.Answer{}, s.framer.WriteSettingsAck()
		}
	case *xhttp2.PingFrame:
		if !f.IsAck() {
			return load.Answer{}, s.framer.WritePing(true, f.Data)
		}
	case *xhttp2.GoAwayFrame:
		s.last = true
	case *xhttp2.RSTStreamFrame:
		if st != nil {
			delete(s.streams, id)
			return load.Answer{Ended: true, Seq: seq(id), Wrong: "stream reset", Last: s.last}, nil
		}
	case *xhttp2.MetaHeadersFrame:
		if st == nil {
			return load.Answer{}, errStream
		}
		if v := f.PseudoValue("status"); v != "" {
			status, err := strconv.Atoi(v)
			if err != nil {
				return load.Answer{}, fmt.Errorf("HTTP/2: status %.20q is malformed", v)
			}
			st.status = status
		}
		if f.StreamEnded() {
			return s.completeAnswer(id, st), nil
		}
	case *xhttp2.DataFrame:
		if st == nil {
			return load.Answer{}, errStream
		}
		st.got.crc = crc32.Update(st.got.crc, castagnoli, f.Data())
		st.got.length += int64(len(f.Data()))
		if s.used += f.Header().Length; s.used > connectionWindow/2 {
			if err := s.framer.WriteWindowUpdate(0, s.used); err != nil {
				return load.Answer{}, err
			}
			s.used = 0
		}
		if f.StreamEnded() {
			return s.completeAnswer(id, st), nil
		}
	}
	return load.Answer{}, nil
}

var errStream = errors.New("HTTP/2: the server sent an answer on a stream without a request")

func (s *http2Session) completeAnswer(id uint32, st *stream) load.Answer {
	delete(s.streams, id)
	return load.Answer{Ended: true, Seq: seq(id), Wrong: s.d.wrong(st.status, st.got), Last: s.last || id > lastStream}
}

func (s *http2Session) LastAnswer() load.Answer { return load.Answer{} }
