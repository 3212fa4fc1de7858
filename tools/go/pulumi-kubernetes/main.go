// SPDX-License-Identifier: Apache-2.0

// Command pulumi-resource-kubernetes serves the Pulumi Kubernetes provider.
//
// The provider's schema lies beside the binary; without it only `get-schema` and `import` lose
// detail, so a missing file is no error.
package main

import (
	_ "embed"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func main() {
	schema := []byte(`{"name":"kubernetes","version":"4.25.0","resources":{}}`)
	if exe, err := os.Executable(); err == nil {
		if b, err := os.ReadFile(filepath.Join(filepath.Dir(exe), "schema.json")); err == nil {
			schema = b
		}
	}
	provider.Serve("kubernetes", version.Version, schema, []byte("{}"))
}
