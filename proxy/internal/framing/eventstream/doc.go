// Package eventstream reads AWS event streams (application/vnd.amazon.eventstream).
//
// aws-sdk-go-v2 decodes single frames, including both checksums and all types of header values. This package assembles
// frames from the pieces of a body, checks their size before it buffers them, and determines the kind of event.
//
// Concurrency: a Decoder belongs to one goroutine.
//
// Format: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html and
// https://smithy.io/2.0/aws/amazon-eventstream.html.
package eventstream
