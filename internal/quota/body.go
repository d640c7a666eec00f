package quota

import "io"

const (
	// piece is the unit in which the bytes of a body are reserved.
	piece = 4 << 10
	// bodyFactor is what a byte of a body costs: it is held while the next larger buffer is filled, and then as what it says.
	bodyFactor = 3
	// smallPieces is how many pieces make a small body. Longer ones have only half of the share, so that clients who hold long bodies
	// without an end do not keep out small ones: a page's queries have some 10 KiB.
	smallPieces = 3
)

// Body reserves what is read of a body as it arrives: a client that is slow holds no more than it has sent. Close ends the
// reservation, and closes the body.
func (s *Share) Body(r io.ReadCloser) io.ReadCloser {
	if s == nil || r == nil {
		return r
	}
	return &body{ReadCloser: r, share: s}
}

type body struct {
	io.ReadCloser
	share    *Share
	left     int // bytes that are reserved and not read
	releases []func()
}

// Read is that of io.Reader; its error is Exceeded where the share is used up.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		if used := b.share.UsedBytes(); len(b.releases) >= smallPieces && used+piece*bodyFactor > b.share.Limit/2 {
			b.share.refused.Add(1)
			return 0, &Exceeded{b.share.Name, piece * bodyFactor, used, b.share.Limit}
		}
		release, err := b.share.Reserve(piece * bodyFactor)
		if err != nil {
			return 0, err
		}
		b.releases = append(b.releases, release)
		b.left = piece
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Close is that of io.Closer.
func (b *body) Close() error {
	for _, release := range b.releases {
		release()
	}
	b.releases = nil
	return b.ReadCloser.Close()
}
