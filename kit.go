// Package sluice embeds the files that `sluice plugin new` writes: the SDKs, the examples on which new plugins are
// based, and their licence. It has no code, and only proxy/plugindev/project imports it.
package sluice

import "embed"

// Files has sdk, examples/plugins and LICENSE as they are in the repository, without built modules.
//
//go:embed LICENSE
//go:embed sdk/*.go sdk/abi/README.md sdk/abi/*.wit sdk/abi/*.go sdk/internal/*/*.go
//go:embed sdk/chat/*.go sdk/filter/*.go sdk/json/*.go sdk/native/*.go sdk/provider/*.go sdk/router/*.go
//go:embed sdk/rust/*.md sdk/rust/*.toml sdk/rust/src/*.rs sdk/c/*.md sdk/c/*.h sdk/assemblyscript/*.md sdk/assemblyscript/*.ts
//go:embed examples/plugins/*/*.go examples/plugins/*/*.rs examples/plugins/*/*.c examples/plugins/*/*.ts
//go:embed examples/plugins/*/*.toml examples/plugins/*/*.md examples/plugins/testdata
var Files embed.FS
