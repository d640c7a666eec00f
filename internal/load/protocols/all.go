// Package protocols is what requests look like, one file per protocol.
package protocols
