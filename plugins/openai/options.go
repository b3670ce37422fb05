package main

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// thinkingMode says what becomes of the member thinking.
type thinkingMode uint8

const (
	thinkingEffort thinkingMode = iota
	thinkingKeep
	thinkingDrop
)

// The members of a message that hold reasoning of an earlier turn.
const (
	keepContent = 1 << iota
	keepDetails
	keepBlocks
)

// options are the operator's, described in the package comment. Their slices are ranges of the document.
type options struct {
	maxTokensMember []byte
	developerRole   []byte
	path            []byte
	modelsPath      []byte
	drop            json.Value
	set             json.Value
	answer          json.Value
	thinking        thinkingMode
	keepReasoning   uint8
	noStreamUsage   bool
	cacheControl    bool
}

var (
	errMaxTokensMember  = errors.New("options: max_tokens_member is neither max_tokens nor max_completion_tokens")
	errThinking         = errors.New("options: thinking is none of effort, keep, drop")
	errReasoningHistory = errors.New("options: reasoning_history holds a name that is none of reasoning_content, reasoning_details, thinking_blocks")
	errKind             = errors.New("options: a member is of the wrong kind")
)

// parse reads options. Members that it does not know are another plugin's, or a newer one's.
func (o *options) parse(doc json.Value) error {
	*o = options{}
	if !doc.Exists() {
		return nil
	}
	var (
		r   json.Reader
		err error
	)
	r.Reset(doc)
	for m := r.Object(); m.Next() && err == nil; {
		switch string(r.Name()) {
		case "max_tokens_member":
			o.maxTokensMember, err = text(&r)
			if s := string(o.maxTokensMember); err == nil && s != "max_tokens" && s != "max_completion_tokens" {
				err = errMaxTokensMember
			}
		case "developer_role":
			o.developerRole, err = text(&r)
		case "stream_usage":
			var on bool
			on, err = boolean(&r)
			o.noStreamUsage = !on
		case "thinking":
			o.thinking, err = parseThinking(&r)
		case "reasoning_history":
			o.keepReasoning, err = parseHistory(&r)
		case "cache_control":
			o.cacheControl, err = boolean(&r)
		case "drop":
			o.drop, err = value(&r, json.Array)
		case "set":
			o.set, err = value(&r, json.Object)
		case "answer":
			o.answer, err = value(&r, json.Object)
		case "path":
			o.path, err = text(&r)
		case "models_path":
			o.modelsPath, err = text(&r)
		}
	}
	if err != nil {
		return err
	}
	return r.End()
}

func text(r *json.Reader) ([]byte, error) {
	if s := r.Text(); s != nil {
		return s, nil
	}
	return nil, errKind
}

func boolean(r *json.Reader) (bool, error) {
	b, ok := r.Bool()
	if !ok {
		return false, errKind
	}
	return b, nil
}

func value(r *json.Reader, kind json.Kind) (json.Value, error) {
	if r.Kind() != kind {
		return nil, errKind
	}
	return r.Raw(), nil
}

func parseThinking(r *json.Reader) (thinkingMode, error) {
	switch string(r.Inside()) {
	case "effort":
		return thinkingEffort, nil
	case "keep":
		return thinkingKeep, nil
	case "drop":
		return thinkingDrop, nil
	}
	return 0, errThinking
}

func parseHistory(r *json.Reader) (keep uint8, err error) {
	if r.Kind() != json.Array {
		return 0, errReasoningHistory
	}
	for a := r.Array(); a.Next(); {
		switch string(r.Inside()) {
		case "reasoning_content":
			keep |= keepContent
		case "reasoning_details":
			keep |= keepDetails
		case "thinking_blocks":
			keep |= keepBlocks
		default:
			err = errReasoningHistory
		}
	}
	return keep, err
}
