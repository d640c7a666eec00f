package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

func Example() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	opts := store.DefaultOptions()
	opts.Dir, opts.Instance = dir, "host-1"
	s, err := store.Open(context.Background(), opts)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	temperature := &metric.Desc{Name: "room_celsius", Kind: metric.Gauge, Labels: []string{"room"}, Help: "Temperature in degrees Celsius."}
	now := time.Now()
	err = s.Append(now, []metric.Sample{
		{Desc: temperature, Labels: []string{"kitchen"}, Value: 21},
		{Desc: temperature, Labels: []string{"cellar"}, Value: 12},
	})
	if err != nil {
		log.Fatal(err)
	}
	points, err := s.Query(context.Background(), `room_celsius > 20`, now)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range points {
		fmt.Println(p.Labels["room"], p.Labels["instance"], p.Value)
	}
	// Output: kitchen host-1 21
}
