// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with only the plugins a Kubernetes cluster needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/caddy/onevent"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/whoami"
)

// The order of the directives is the order in which plugins see a query.
func init() {
	dnsserver.Directives = []string{
		"bind",
		"reload",
		"log",
		"errors",
		"health",
		"ready",
		"prometheus",
		"cache",
		"loop",
		"kubernetes",
		"forward",
		"whoami",
	}
}

func main() { coremain.Run() }
