package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

// reportFormat is the format in which a command prints its results: text for people, or json or junit for tools.
type reportFormat string

func (f *reportFormat) register(c *cobra.Command) {
	*f = "text"
	c.Flags().Var(f, "format", "`format` of the results: text, json or junit")
}

// String implements pflag.Value.
func (f *reportFormat) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *reportFormat) Type() string { return "format" }

// Set implements pflag.Value.
func (f *reportFormat) Set(text string) error {
	switch text {
	case "text", "json", "junit":
		*f = reportFormat(text)
		return nil
	}
	return fmt.Errorf("want text, json or junit")
}

// reportCase is one result: of a vector, a rule or a kind of calls.
type reportCase struct {
	Name     string   `json:"name"`
	Plugin   string   `json:"plugin,omitempty"` // of a measurement
	Passed   bool     `json:"passed"`
	Skipped  bool     `json:"skipped,omitempty"` // a rule that does not apply
	Updated  bool     `json:"updated,omitempty"`
	Failures []string `json:"failures,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Log      []string `json:"log,omitempty"`
	Trials   int      `json:"trials,omitempty"`
	Calls    int      `json:"calls,omitempty"`
	Fuel     int64    `json:"fuel,omitempty"`
	Seconds  float64  `json:"seconds,omitempty"`
	Share    float64  `json:"share_of_budget,omitempty"` // the largest of a call
}

// write prints results. suite names them in JUnit's format.
func (f reportFormat) write(w io.Writer, suite string, cases []reportCase) error {
	if f == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(cases)
	}
	return writeJUnit(w, suite, cases)
}

// junitSuite is the root of a file in JUnit's format.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Seconds float64    `xml:"time,attr,omitempty"`
	Failure *junitText `xml:"failure"`
	Skipped *junitText `xml:"skipped"`
	Output  string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr,omitempty"`
	Text    string `xml:",chardata"`
}

func writeJUnit(w io.Writer, name string, cases []reportCase) error {
	s := junitSuite{Name: name, Tests: len(cases)}
	for _, c := range cases {
		j := junitCase{Class: name, Name: c.Name, Seconds: c.Seconds, Output: strings.Join(append(c.Warnings, c.Log...), "\n")}
		if c.Plugin != "" {
			j.Class = name + "." + c.Plugin
		}
		switch {
		case len(c.Failures) > 0:
			s.Failures++
			first, _, _ := strings.Cut(c.Failures[0], "\n")
			j.Failure = &junitText{first, strings.Join(c.Failures, "\n")}
		case c.Skipped:
			s.Skipped++
			j.Skipped = &junitText{}
		}
		s.Cases = append(s.Cases, j)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// testedCases returns the results of vectors, and the number that failed.
func testedCases(tested []plugindev.Tested) (cases []reportCase, failed int) {
	for _, t := range tested {
		c := reportCase{
			Name: t.Name, Passed: len(t.Failures) == 0, Updated: t.Updated, Warnings: t.Warnings, Log: t.Log,
			Fuel: t.Cost.Request + t.Cost.Reading, Share: t.Cost.Share,
		}
		for _, f := range t.Failures {
			c.Failures = append(c.Failures, f.Where+": "+f.Text)
		}
		if !c.Passed {
			failed++
		}
		cases = append(cases, c)
	}
	return cases, failed
}

// markCases returns the results of rules, and the number of broken ones.
func markCases(marks []plugindev.Mark) (cases []reportCase, broken int) {
	for _, m := range marks {
		c := reportCase{Name: m.Rule, Passed: m.Broken == "" && m.Tried > 0, Skipped: m.Tried == 0, Warnings: m.Warnings, Trials: m.Tried}
		if m.Broken != "" {
			c.Failures = []string{m.Broken}
			broken++
		}
		cases = append(cases, c)
	}
	return cases, broken
}

// measureCases returns measurements.
func measureCases(rows []plugindev.Measure) (cases []reportCase) {
	for _, r := range rows {
		cases = append(cases, reportCase{
			Name: r.Call, Plugin: r.Plugin, Passed: true, Calls: r.Calls, Fuel: r.Fuel, Seconds: float64(r.Time) / float64(time.Second), Share: r.Share,
		})
	}
	return cases
}
