package worker

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/flynn/noise"

	"github.com/teescope/teescope/channel"
)

// codec times both halves of a message separately, without a connection: framing alone (plain),
// framing and the cipher (channel), and the cipher alone on a whole message (aead).
func (m *measurement) codec(ctx context.Context, cycles *cycleCounter) ([]*variant, error) {
	parts, data, err := m.parts()
	if err != nil {
		return nil, err
	}
	// The number of operations timed together, so the clock's cost is negligible; their data
	// stays in a core's cache.
	batch := uint64(max(1, min(64, (256<<10)/len(data))))
	var out []*variant
	half := func(name string, prepare, timed func() error) {
		v := &variant{name: name}
		v.window = func(d time.Duration, _ func(time.Duration)) (n uint64, sum time.Duration, err error) {
			for began := monotonic(); n == 0 || monotonic().Sub(began) < d; { // at least once, however short d
				for range batch {
					if err := prepare(); err != nil {
						return n, sum, err
					}
				}
				count, start := cycles.read(), monotonic()
				for range batch {
					if err := timed(); err != nil {
						return n, sum, err
					}
				}
				sum += monotonic().Sub(start)
				v.cycles += cycles.read() - count
				n += batch
			}
			return n, sum, nil
		}
		out = append(out, v)
	}
	for _, p := range []struct {
		name       string
		protection byte
	}{{"plain", plainText}, {"channel", channelKeys}} {
		wire := &memory{}
		to, from, err := m.pair(ctx, wire, p.protection)
		if err != nil {
			return nil, err
		}
		var got []byte
		send := func() error { return to.Send(parts...) }
		receive := func() (err error) {
			got, err = from.Receive(got)
			if err == nil && !bytes.HasSuffix(got, data[len(data)-16:]) {
				m.wrong++
			}
			return err
		}
		half(p.name+"_receive", send, receive)
		half(p.name+"_send", func() error {
			if wire.Len() == 0 {
				return nil
			}
			return receive()
		}, send)
	}
	cipher := map[channel.Suite]noise.CipherFunc{channel.AESGCM: noise.CipherAESGCM, channel.ChaChaPoly: noise.CipherChaChaPoly}[m.cipher].Cipher([32]byte{})
	nothing := func() error { return nil }
	var sealed, opened []byte
	seal := func() error { sealed = cipher.Encrypt(sealed[:0], 0, nil, data); return nil }
	half("aead_seal", nothing, seal)
	half("aead_open", seal, func() (err error) { opened, err = cipher.Decrypt(opened[:0], 0, nil, sealed); return err })
	return out, nil
}

// pair returns two sides of a session whose messages go through wire.
func (m *measurement) pair(ctx context.Context, wire *memory, protection byte) (to, from messenger, err error) {
	if protection == plainText {
		return channel.Unprotected(wire, channel.Config{}), channel.Unprotected(wire, channel.Config{}), nil
	}
	a, b := channel.Pipe(pipeSize)
	left, right := &redirected{ReadWriteCloser: a}, &redirected{ReadWriteCloser: b}
	served := make(chan error, 1)
	go func() {
		var err error
		from, err = channel.Server(ctx, right, channel.Config{Suite: m.cipher})
		served <- err
	}()
	to, err = channel.Client(ctx, left, channel.Config{Suite: m.cipher, Unverified: true})
	if err2 := <-served; err == nil {
		err = err2
	}
	left.wire, right.wire = wire, wire
	return to, from, err
}

// redirected is a connection that uses a memory after its handshake.
type redirected struct {
	io.ReadWriteCloser
	wire *memory
}

func (r *redirected) Read(p []byte) (int, error) {
	if r.wire != nil {
		return r.wire.Read(p)
	}
	return r.ReadWriteCloser.Read(p)
}

func (r *redirected) Write(p []byte) (int, error) {
	if r.wire != nil {
		return r.wire.Write(p)
	}
	return r.ReadWriteCloser.Write(p)
}

// memory holds what was written until it is read.
type memory struct{ bytes.Buffer }

// Close does nothing: there is no connection.
func (*memory) Close() error { return nil }
