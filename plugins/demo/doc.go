// Package demo is a provider plugin that answers by itself. It has no upstream, no key and no cost, so that a gateway
// can be tried, and a client tested, before anything is configured.
//
// Its answers follow from the request alone:
//
//   - text that takes up what the user said last, in as many events as it has words, so that a stream is seen;
//   - reasoning before it, where thinking or a reasoning_effort asks for it;
//   - a call of the first tool, or of the one that tool_choice names, with arguments that fit its schema as far as a
//     simple generator can make them; after the tool's result a closing text;
//   - a JSON document where response_format asks for one;
//   - up to 8 choices, max_tokens with finish_reason length, and stop sequences as the OpenAI API has them;
//   - counts of tokens, one for each word written and one for every four bytes read.
package demo
