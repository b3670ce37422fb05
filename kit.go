// Package sluice holds the files that `sluice plugin new` writes: the SDKs, the examples that it starts from, and the licence of
// both. It has no code, and nothing but proxy/plugindev/project imports it.
package sluice

import "embed"

// Files has sdk, examples/plugins and LICENSE as they are in the repository. Built plugins are not among them.
//
//go:embed LICENSE
//go:embed sdk/*.go sdk/abi/README.md sdk/abi/*.go sdk/internal/*/*.go
//go:embed sdk/chat/*.go sdk/filter/*.go sdk/json/*.go sdk/native/*.go sdk/provider/*.go sdk/router/*.go
//go:embed sdk/rust/*.md sdk/rust/*.toml sdk/rust/src/*.rs sdk/c/*.md sdk/c/*.h sdk/assemblyscript/*.md sdk/assemblyscript/*.ts
//go:embed examples/plugins/*/*.go examples/plugins/*/*.rs examples/plugins/*/*.c examples/plugins/*/*.ts
//go:embed examples/plugins/*/*.toml examples/plugins/*/*.md examples/plugins/testdata
var Files embed.FS
