package protocols

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"

	"github.com/teescope/teescope/internal/load"
)

// mongodb is the wire protocol of MongoDB: OP_MSG with one command in BSON (MongoDB's
// manual, "MongoDB Wire Protocol"). The driver's own packages read and write messages
// and documents; its client, which has a pool, a session and a monitor, would dominate
// the measurement.
var mongodb = load.Protocol{
	Name: "mongodb",
	Doc:  "MongoDB without authentication: --command is find, DATABASE.COLLECTION, and an _id in which {key} is one of --keys keys; _id and value of every answer are checked.",
	Open: func(a load.Ask) (load.Dialect, error) {
		k, err := newKeyed(a, "find")
		if err != nil {
			return nil, err
		}
		if len(k.words) == 3 && k.words[0] == "find" && strings.Contains(k.words[2], "{key}") {
			if database, collection, ok := strings.Cut(k.words[1], "."); ok && database != "" && collection != "" {
				return &mongoDialect{k, database, collection}, nil
			}
		}
		return nil, fmt.Errorf("command %q: want DATABASE.COLLECTION and an _id to find, as in \"find test.data key:{key}\"", a.Command)
	},
}

type mongoDialect struct {
	*keyed
	database, collection string
}

// Begin says hello, as every client does, in the words of the server's version: a server
// that answers otherwise is not MongoDB.
func (d *mongoDialect) Begin(_ context.Context, conn net.Conn, seed uint64) (load.Session, net.Conn, error) {
	_, err := mongoAsk(conn, "admin", "hello")
	if errors.Is(err, errMongoCommand) { // before 5.0, and its backports
		_, err = mongoAsk(conn, "admin", "isMaster")
	}
	if err != nil {
		return nil, nil, err
	}
	return &mongoSession{d: d, drawn: newDrawn(seed)}, conn, nil
}

func (d *mongoDialect) Digest() string { return "mongodb " + d.digest() }

// mongoBatch is the number of documents inserted at once, mongoBatchBytes about their
// maximum total size: a message has at most 48 MB.
const (
	mongoBatch      = 1000
	mongoBatchBytes = 8 << 20
)

// Populate inserts a document for every key.
func (d *mongoDialect) Populate(ctx context.Context, conn net.Conn) (uint64, error) {
	var out, text []byte
	requests := uint64(0)
	for key := 0; key < d.keys; requests++ {
		if ctx.Err() != nil {
			return requests, ctx.Err()
		}
		var all, one int32
		n := int32(0)
		_, out = wiremessage.AppendHeaderStart(out[:0], int32(requests)+1, 0, wiremessage.OpMsg)
		out = wiremessage.AppendMsgFlags(out, 0)
		out = wiremessage.AppendMsgSectionType(out, wiremessage.SingleDocument)
		all, out = bsoncore.AppendDocumentStart(out)
		out = bsoncore.AppendStringElement(out, "insert", d.collection)
		out = bsoncore.AppendStringElement(out, "$db", d.database)
		out, _ = bsoncore.AppendDocumentEnd(out, all) // the place is that of its start
		out = wiremessage.AppendMsgSectionType(out, wiremessage.DocumentSequence)
		var sequence int32
		sequence, out = bsoncore.ReserveLength(out)
		out = append(out, "documents\x00"...)
		for ; key < d.keys && n < mongoBatch && len(out) < mongoBatchBytes; n++ {
			one, out = bsoncore.AppendDocumentStart(out)
			text = appendWord(text[:0], d.words[2], key)
			out = bsoncore.AppendStringElement(out, "_id", string(text))
			text = d.appendValue(text[:0], key)
			out = bsoncore.AppendStringElement(out, "value", string(text))
			out, _ = bsoncore.AppendDocumentEnd(out, one)
			key++
		}
		out = bsoncore.UpdateLength(out, sequence, int32(len(out))-sequence)
		out = bsoncore.UpdateLength(out, 0, int32(len(out)))
		answer, err := mongoAnswer(conn, out)
		if err != nil {
			return requests, fmt.Errorf("insert: %w", err)
		}
		if took, ok := answer.Lookup("n").AsInt32OK(); !ok || took != n {
			return requests, fmt.Errorf("insert: of %d documents the server stored only %d: %.200s", n, took, answer)
		}
	}
	return requests, nil
}

// appendMongo writes a command of one word, to which more adds elements.
func appendMongo(b []byte, id int32, database, command, value string, more func([]byte) []byte) []byte {
	start := int32(len(b))
	_, b = wiremessage.AppendHeaderStart(b, id, 0, wiremessage.OpMsg)
	b = wiremessage.AppendMsgFlags(b, 0)
	b = wiremessage.AppendMsgSectionType(b, wiremessage.SingleDocument)
	document, b := bsoncore.AppendDocumentStart(b)
	if value == "" {
		b = bsoncore.AppendInt32Element(b, command, 1)
	} else {
		b = bsoncore.AppendStringElement(b, command, value)
	}
	if more != nil {
		b = more(b)
	}
	b = bsoncore.AppendStringElement(b, "$db", database)
	b, _ = bsoncore.AppendDocumentEnd(b, document) // the place is that of its start
	return bsoncore.UpdateLength(b, start, int32(len(b))-start)
}

// mongoAsk sends a command without arguments and waits for its answer.
func mongoAsk(conn net.Conn, database, command string) (bsoncore.Document, error) {
	answer, err := mongoAnswer(conn, appendMongo(nil, 1, database, command, "", nil))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return answer, nil
}

// mongoAnswer sends a message and waits for the answer, which must be no error.
func mongoAnswer(conn net.Conn, message []byte) (bsoncore.Document, error) {
	_, unsent := conn.Write(message)
	b := make([]byte, mongoHead, 4<<10)
	if _, err := io.ReadFull(conn, b); err != nil { // even if writing failed: the server may have said why
		return nil, cmp.Or(unsent, err)
	}
	size, err := mongoSize(b)
	if err != nil {
		return nil, err
	}
	b = append(b, make([]byte, size-mongoHead)...)
	if _, err := io.ReadFull(conn, b[mongoHead:]); err != nil {
		return nil, cmp.Or(unsent, err)
	}
	_, answer, err := mongoMessage(b)
	if err != nil || mongoOK(answer) {
		return answer, err
	}
	if name, _ := answer.Lookup("codeName").StringValueOK(); name == "CommandNotFound" {
		return answer, fmt.Errorf("%w: the answer is %.200s", errMongoCommand, answer)
	}
	return answer, fmt.Errorf("the server answers %.200s", answer)
}

var (
	errMongo        = errors.New("MongoDB: the answer is malformed")
	errMongoCommand = errors.New("the server does not know the command")
)

// mongoHead is the length of a message's head, in bytes.
const mongoHead = 16

// mongoSize is the length of the message that begins with b, head and all.
func mongoSize(b []byte) (int, error) {
	size, _, ok := bsoncore.ReadLength(b)
	if !ok || size < mongoHead || size > load.MostBuffered {
		return 0, errMongo
	}
	return int(size), nil
}

// mongoMessage reads a whole OP_MSG with one document: the number of the request that
// it answers, and the document, which has been validated.
func mongoMessage(b []byte) (to int32, answer bsoncore.Document, err error) {
	_, _, to, code, rest, ok := wiremessage.ReadHeader(b)
	if !ok || code != wiremessage.OpMsg {
		return 0, nil, errMongo
	}
	flags, rest, ok := wiremessage.ReadMsgFlags(rest)
	if !ok || flags&wiremessage.MoreToCome != 0 {
		return 0, nil, errMongo
	}
	kind, rest, ok := wiremessage.ReadMsgSectionType(rest)
	if !ok || kind != wiremessage.SingleDocument {
		return 0, nil, errMongo
	}
	answer, _, ok = wiremessage.ReadMsgSectionSingleDocument(rest)
	if !ok || answer.Validate() != nil {
		return 0, nil, errMongo
	}
	return to, answer, nil
}

// mongoOK reports whether a command succeeded.
func mongoOK(answer bsoncore.Document) bool {
	ok, known := answer.Lookup("ok").AsFloat64OK()
	return known && ok == 1 && answer.Lookup("writeErrors").Type == 0
}

type mongoSession struct {
	d *mongoDialect
	drawn
	sent, seq uint64
	id        []byte
}

func (s *mongoSession) Request(b []byte) []byte {
	s.id = appendWord(s.id[:0], s.d.words[2], s.draw(s.d.keys))
	s.sent++
	return appendMongo(b, int32(s.sent), s.d.database, "find", s.d.collection, func(b []byte) []byte {
		filter, b := bsoncore.AppendDocumentElementStart(b, "filter")
		b = bsoncore.AppendStringElement(b, "_id", string(s.id))
		b, _ = bsoncore.AppendDocumentEnd(b, filter)
		b = bsoncore.AppendInt32Element(b, "limit", 1)
		return bsoncore.AppendBooleanElement(b, "singleBatch", true)
	})
}

func (s *mongoSession) Answer(b []byte) (int, load.Answer, error) {
	if len(b) < mongoHead {
		return 0, load.Answer{}, nil
	}
	n, err := mongoSize(b)
	if err != nil || len(b) < n {
		return 0, load.Answer{}, err
	}
	to, answer, err := mongoMessage(b[:n])
	if err != nil {
		return 0, load.Answer{}, err
	}
	key, asked := s.next()
	if !asked || to != int32(s.seq+1) {
		return 0, load.Answer{}, errors.New("MongoDB: the server sent an answer without a request")
	}
	a := load.Answer{Ended: true, Seq: s.seq, Wrong: s.wrong(answer, key)}
	if said, ok := answer.Lookup("errmsg").StringValueOK(); ok && a.Wrong != "" {
		a.Said = quoted(said)
	}
	s.seq++
	return n, a, nil
}

// wrong is the kind of error of an answer, "" for none.
func (s *mongoSession) wrong(answer bsoncore.Document, key int) string {
	if !mongoOK(answer) {
		return "error reply"
	}
	found, ok := answer.Lookup("cursor", "firstBatch", "0").DocumentOK()
	if !ok {
		return "missing key"
	}
	id, _ := found.Lookup("_id").StringValueOK()
	value, ok := found.Lookup("value").StringValueOK()
	s.id = appendWord(s.id[:0], s.d.words[2], key)
	if !ok || id != string(s.id) || !s.d.right([]byte(value), key) {
		return "wrong answer"
	}
	return ""
}

// LastAnswer: an incomplete answer is none.
func (s *mongoSession) LastAnswer() load.Answer { return load.Answer{} }
