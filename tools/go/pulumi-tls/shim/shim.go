// SPDX-License-Identifier: Apache-2.0

// Package shim opens terraform-provider-tls's internal constructor to the Pulumi bridge.
package shim

import (
	"github.com/hashicorp/terraform-plugin-framework/provider"
	tls "github.com/hashicorp/terraform-provider-tls/internal/provider"
)

// New returns the terraform TLS provider.
func New() provider.Provider { return tls.New() }
