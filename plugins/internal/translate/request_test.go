package translate

import "testing"

func TestArguments(t *testing.T) {
	for text, want := range map[string]struct {
		object string
		ok     bool
	}{
		``:                                  {`{}`, true},
		" \r\n\t":                           {`{}`, true},
		` {"a":1} `:                         {`{"a":1}`, true},
		`{"a":`:                             {`{}`, false},
		`{"a":"b`:                           {`{}`, false},
		`{} {}`:                             {`{}`, false},
		`[1]`:                               {`{}`, false},
		`"{}"`:                              {`{}`, false},
		`null`:                              {`{}`, false},
		`{"a":"\ud83d"}`:                    {`{"a":"\ufffd"}`, false},
		`{"a":"\uDE00\ud83d\ude00\uD83Dx"}`: {`{"a":"\ufffd\ud83d\ude00\ufffdx"}`, false},
		`{"a":"\\ud83d\\"}`:                 {`{"a":"\\ud83d\\"}`, true},
		`{"a":"\ud83d\ude00"}`:              {`{"a":"\ud83d\ude00"}`, true},
		`{"a":"\ud83d\n\ud7ff\ue000"}`:      {`{"a":"\ufffd\n\ud7ff\ue000"}`, false},
	} {
		object, ok := Arguments([]byte(text))
		if string(object) != want.object || ok != want.ok {
			t.Errorf("%q is %s, %v, want %s, %v", text, object, ok, want.object, want.ok)
		}
	}
}
