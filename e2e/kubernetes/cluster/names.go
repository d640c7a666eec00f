package cluster

import (
	"errors"
	"net"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
)

// answerNames is the cluster's DNS: it knows the names of services.
func (c *Cluster) answerNames() error {
	at, err := net.ListenPacket("udp", serverIP+":53")
	if err != nil {
		return err
	}
	c.closers = append(c.closers, at)
	go func() {
		question := make([]byte, 512)
		for {
			n, from, err := at.ReadFrom(question)
			if err != nil {
				return
			}
			if answer, err := c.answerName(question[:n]); err == nil {
				_, _ = at.WriteTo(answer, from)
			}
		}
	}()
	return nil
}

func (c *Cluster) answerName(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	if len(m.Questions) != 1 {
		return nil, errors.New("not one question")
	}
	q := m.Questions[0]
	m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeNameError, nil
	if name, ok := strings.CutSuffix(q.Name.String(), ".svc.cluster.local."); ok {
		service, namespace, _ := strings.Cut(name, ".")
		var s corev1.Service
		if err := c.API("GET", "/api/v1/namespaces/"+namespace+"/services/"+service, nil, &s); err == nil {
			m.RCode = dnsmessage.RCodeSuccess
			if ip := net.ParseIP(s.Spec.ClusterIP).To4(); ip != nil && q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5},
					Body:   &dnsmessage.AResource{A: [4]byte(ip)},
				}}
			}
		}
	}
	return m.Pack()
}
