// Package messages is the Anthropic Messages API as clients see it: requests are read and checked (Request), responses are
// rendered, and those of providers that speak the API themselves are read.
//
// A request keeps the client's document. A provider that speaks the API gets that, with members that the API does not know and
// with block types that nobody has heard of (Request.Document). What must not reach it is edited out: reasoning of other
// origins, which travels in signatures of the gateway's own (thinking.Sealer). Every other provider gets a chat completions
// request that asks for the same (Request.AppendChat).
//
// So there are two places where a request may be refused. Parse refuses what is malformed whoever serves it. AppendChat
// refuses what a chat completions request cannot express, such as server tools: another target may serve that.
//
// Errors name members as Anthropic does, "messages.3.content.0.tool_result.content", since clients show and parse them.
package messages
