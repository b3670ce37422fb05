// Package demo is a provider plugin that generates responses itself. It has no upstream, key or cost, so that a gateway
// can be tried and a client tested before a provider is configured.
//
// The response depends only on the request:
//
//   - text that quotes the last user message, one event per word, so that streaming is visible;
//   - reasoning before it, if requested by thinking or reasoning_effort;
//   - a tool call instead of the text, only if tool_choice requires one or the last user message says "call" and the name
//     of a tool, with arguments that match its schema as far as a simple generator supports it; after the tool's result, a
//     closing text;
//   - a JSON document if requested by response_format;
//   - up to 8 choices, max_tokens with finish_reason length, and stop sequences, as in the OpenAI API;
//   - token counts: one per word of output, and one per four bytes of input.
package demo
