package storetest_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/store/storetest"
)

// TestContainerTable: the engine answers the queries of the page's table of containers, whose test holds them equal to the file's.
// A group has two disks, a volume on one of them and two networks; another one only some of the counters.
func TestContainerTable(t *testing.T) {
	s := storetest.Load(t, `load 5s
  container_cpu_usage_seconds_total{job="teescope",instance="vm1",id="/"} 0+50x24
  container_cpu_usage_seconds_total{job="teescope",instance="vm1",id="/a",name="a"} 0+5x24
  container_cpu_usage_seconds_total{job="teescope",instance="vm1",id="/b"} 0+1x24
  container_memory_working_set_bytes{job="teescope",instance="vm1",id="/a",name="a"} 1000x24
  container_spec_memory_limit_bytes{job="teescope",instance="vm1",id="/a",name="a"} 4000x24
  container_cpu_cfs_throttled_periods_total{job="teescope",instance="vm1",id="/a",name="a"} 0+5x24
  container_cpu_cfs_periods_total{job="teescope",instance="vm1",id="/a",name="a"} 0+10x24
  container_fs_reads_bytes_total{job="teescope",instance="vm1",id="/a",name="a",device="vda"} 0+20x24
  container_fs_reads_bytes_total{job="teescope",instance="vm1",id="/a",name="a",device="vdb"} 0+30x24
  container_fs_reads_bytes_total{job="teescope",instance="vm1",id="/a",name="a",device="dm-0"} 0+20x24
  container_fs_writes_bytes_total{job="teescope",instance="vm1",id="/a",name="a",device="vda"} 0+100x24
  container_fs_writes_bytes_total{job="teescope",instance="vm1",id="/a",name="a",device="vdb"} 0+0x24
  container_fs_writes_bytes_total{job="teescope",instance="vm1",id="/b",device="vda"} 0+5x24
  tee_container_disk_counted{job="teescope",instance="vm1",device="vda"} 1x24
  tee_container_disk_counted{job="teescope",instance="vm1",device="vdb"} 1x24
  tee_container_disk_counted{job="teescope",instance="vm1",device="dm-0"} 0x24
  container_network_receive_bytes_total{job="teescope",instance="vm1",id="/a",name="a",interface="eth0"} 0+500x24
  container_network_receive_bytes_total{job="teescope",instance="vm1",id="/a",name="a",interface="net1"} 0+10x24
  container_network_transmit_bytes_total{job="teescope",instance="vm1",id="/a",name="a",interface="eth0"} 0+250x24
  container_network_receive_bytes_total{job="teescope",instance="vm1",id="/b",interface="eth0"} 0+1x24
  container_network_receive_bytes_total{job="teescope",instance="vm2",id="/a",name="a",interface="eth0"} 0+7x24
`)
	b, err := os.ReadFile("testdata/containers.json")
	if err != nil {
		t.Fatal(err)
	}
	var columns []struct {
		Query string
		Want  map[string]float64 // by id
	}
	if err := json.Unmarshal(b, &columns); err != nil || len(columns) == 0 {
		t.Fatal("no queries", err)
	}
	for _, c := range columns {
		points, err := s.Query(t.Context(), c.Query, time.Unix(120, 0))
		got := map[string]float64{}
		for _, p := range points {
			got[p.Labels["id"]] = math.Round(p.Value*1e6) / 1e6
		}
		if err != nil || len(points) != len(got) || !maps.Equal(got, c.Want) {
			t.Errorf("%s\ngives %v, %v, want %v", c.Query, got, err, c.Want)
		}
	}
}
