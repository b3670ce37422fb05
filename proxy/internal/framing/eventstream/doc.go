// Package eventstream reads the event streams of AWS (application/vnd.amazon.eventstream) as they come from a provider.
//
// It owns the framing and nothing behind it: what the payload of an event means is for the provider's plugin. One frame is
// decoded by aws-sdk-go-v2, both checksums and every type of header value included; the package puts frames together from
// pieces of a body, bounds their size before it keeps anything of them, and says what kind of event a frame is.
//
// A Decoder belongs to one goroutine. Decoders share nothing.
//
// The format: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html and
// https://smithy.io/2.0/aws/amazon-eventstream.html.
package eventstream
