// SPDX-License-Identifier: Apache-2.0

// Command pulumi-resource-tls bridges terraform-provider-tls into a Pulumi provider.
package main

import (
	"context"

	"github.com/hashicorp/terraform-provider-tls/shim"
	pf "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/pf/tfbridge"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge/tokens"
)

var version = "5.5.1"

func main() {
	info := tfbridge.ProviderInfo{
		P:                              pf.ShimProvider(shim.New()),
		Name:                           "tls",
		Version:                        version,
		MetadataInfo:                   tfbridge.NewProviderMetadata([]byte("{}")),
		EnableZeroDefaultSchemaVersion: true,
		EnableAccurateBridgePreview:    true,
	}
	info.MustComputeTokens(tokens.SingleModule("tls_", "index", tokens.MakeStandard("tls")))
	pf.Main(context.Background(), "tls", info, pf.ProviderMetadata{PackageSchema: []byte("{}")})
}
