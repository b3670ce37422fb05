package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// The error numbers of WASI preview 1 that the functions below return.
const (
	wasiOK      = 0
	wasiBadFD   = 8
	wasiFault   = 21
	wasiInvalid = 28
	wasiNoSys   = 52
)

// The prices of the functions below, in units of fuel: wasiCall for each call, and 1 for each 16 bytes that it copies.
const (
	wasiCall      = 16
	wasiByteShift = 4
)

// wasiFunctions are all functions of WASI preview 1, so that a guest loads no matter which of them its language links
// in. None of them gives access to the machine: there are no arguments, no environment variables and no files, and
// clock and random bytes are those of the call.
var wasiFunctions = append([]Import{
	wasiFunction("args_get", "ii", wasiEmptyGet),
	wasiFunction("args_sizes_get", "ii", wasiEmptySizes),
	wasiFunction("environ_get", "ii", wasiEmptyGet),
	wasiFunction("environ_sizes_get", "ii", wasiEmptySizes),
	wasiFunction("clock_res_get", "ii", wasiClockResolution),
	wasiFunction("clock_time_get", "iIi", wasiClockTime),
	wasiFunction("fd_fdstat_get", "ii", wasiDescriptorStatus),
	wasiFunction("fd_write", "iiii", wasiWrite),
	wasiFunction("poll_oneoff", "iiii", wasiPoll),
	wasiFunction("proc_raise", "i", wasiNotSupported),
	wasiFunction("random_get", "ii", wasiRandom),
	wasiFunction("sched_yield", "", wasiYield),
	{Name: "proc_exit", Params: []ValueType{I32}, Func: wasiExit},
}, wasiDescriptorFunctions()...)

// wasiDescriptorFunctions returns the functions that need a descriptor of a file, directory or socket, which no guest
// has. They fail with EBADF.
func wasiDescriptorFunctions() (list []Import) {
	for name, params := range map[string]string{
		"fd_advise": "iIIi", "fd_allocate": "iII", "fd_close": "i", "fd_datasync": "i", "fd_fdstat_set_flags": "ii",
		"fd_fdstat_set_rights": "iII", "fd_filestat_get": "ii", "fd_filestat_set_size": "iI", "fd_filestat_set_times": "iIIi",
		"fd_pread": "iiiIi", "fd_prestat_get": "ii", "fd_prestat_dir_name": "iii", "fd_pwrite": "iiiIi", "fd_read": "iiii",
		"fd_readdir": "iiiIi", "fd_renumber": "ii", "fd_seek": "iIii", "fd_sync": "i", "fd_tell": "ii",
		"path_create_directory": "iii", "path_filestat_get": "iiiii", "path_filestat_set_times": "iiiiIIi", "path_link": "iiiiiii",
		"path_open": "iiiiiIIii", "path_readlink": "iiiiii", "path_remove_directory": "iii", "path_rename": "iiiiii",
		"path_symlink": "iiiii", "path_unlink_file": "iii",
		"sock_accept": "iii", "sock_recv": "iiiiii", "sock_send": "iiiii", "sock_shutdown": "ii",
	} {
		list = append(list, wasiFunction(name, params, wasiNoDescriptor))
	}
	return list
}

// wasiFunction returns an import that returns an error number. params has a letter for each parameter, as in package
// abi: i for i32, I for i64.
func wasiFunction(name, params string, f HostFunc) Import {
	im := Import{Name: name, Results: []ValueType{I32}, Func: f}
	for _, p := range params {
		t := I32
		if p == 'I' {
			t = I64
		}
		im.Params = append(im.Params, t)
	}
	return im
}

// charge charges for a standard function that copies n bytes. It is called before the work is done, and ends the call
// if the budget does not cover that.
func (i *Instance) charge(n uint32) {
	i.Charge(wasiCall + int64(n>>wasiByteShift))
	if i.exhausted() {
		panic(endFuel)
	}
}

// wasiEmptyGet returns an empty list of arguments or environment variables.
func wasiEmptyGet(i *Instance, stack []uint64) {
	i.charge(0)
	stack[0] = wasiOK
}

// wasiEmptySizes returns the sizes of an empty list of arguments or environment variables.
func wasiEmptySizes(i *Instance, stack []uint64) {
	i.charge(0)
	var none [4]byte
	if !i.Write(uint32(stack[0]), none[:]) || !i.Write(uint32(stack[1]), none[:]) {
		stack[0] = wasiFault
		return
	}
	stack[0] = wasiOK
}

// epoch is the time that every clock shows when a call begins: 2001-09-09 01:46:40 UTC, in nanoseconds. A plugin that
// needs the real time gets it in the call's input.
const epoch = 1_000_000_000 * int64(1e9)

func wasiClockTime(i *Instance, stack []uint64) {
	i.charge(0)
	var now [8]byte
	binary.LittleEndian.PutUint64(now[:], uint64(i.clock))
	if !i.Write(uint32(stack[2]), now[:]) {
		stack[0] = wasiFault
		return
	}
	stack[0] = wasiOK
}

// wasiClockResolution returns a resolution of one nanosecond.
func wasiClockResolution(i *Instance, stack []uint64) {
	i.charge(0)
	if !i.Write(uint32(stack[1]), []byte{1, 0, 0, 0, 0, 0, 0, 0}) {
		stack[0] = wasiFault
		return
	}
	stack[0] = wasiOK
}

// The fields of a descriptor's status (fdstat) that are not 0.
const (
	statusSize      = 24
	characterDevice = 2      // at offset 0: the file type
	rightToWrite    = 1 << 6 // at offset 8: the rights
)

// wasiDescriptorStatus reports standard output and error as terminals, for which C libraries flush each line. Otherwise
// nothing would flush their buffers.
func wasiDescriptorStatus(i *Instance, stack []uint64) {
	i.charge(statusSize)
	if fd := int32(stack[0]); fd != 1 && fd != 2 {
		stack[0] = wasiBadFD
		return
	}
	status := [statusSize]byte{0: characterDevice, 8: rightToWrite}
	if !i.Write(uint32(stack[1]), status[:]) {
		stack[0] = wasiFault
		return
	}
	stack[0] = wasiOK
}

func wasiNotSupported(i *Instance, stack []uint64) {
	i.charge(0)
	stack[0] = wasiNoSys
}

func wasiNoDescriptor(i *Instance, stack []uint64) {
	i.charge(0)
	stack[0] = wasiBadFD
}

func wasiYield(i *Instance, stack []uint64) {
	i.charge(0)
	stack[0] = wasiOK
}

func wasiExit(i *Instance, stack []uint64) {
	panic(&ending{kind: Exit, code: uint32(stack[0])})
}

func wasiRandom(i *Instance, stack []uint64) {
	addr, n := uint32(stack[0]), uint32(stack[1])
	i.charge(n)
	p, ok := i.Read(addr, n)
	if !ok {
		stack[0] = wasiFault
		return
	}
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, i.random.Uint64())
		p = p[8:]
	}
	if len(p) > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], i.random.Uint64())
		copy(p, last[:])
	}
	stack[0] = wasiOK
}

// maxVectors limits the buffers of one fd_write. POSIX writers use at most 1024.
const maxVectors = 1024

// wasiWrite passes standard output and error to Options.Output, up to the limit of a call. It drops the rest silently,
// so that a guest behaves in the same way with and without a log.
func wasiWrite(i *Instance, stack []uint64) {
	fd, vectors, count, written := int32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	i.charge(0)
	if fd != 1 && fd != 2 {
		stack[0] = wasiBadFD
		return
	}
	if count > maxVectors {
		stack[0] = wasiInvalid
		return
	}
	list, ok := i.Read(vectors, count*8)
	if !ok {
		stack[0] = wasiFault
		return
	}
	var total uint64
	for ; len(list) > 0; list = list[8:] {
		p, ok := i.Read(binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(list[4:]))
		if !ok {
			stack[0] = wasiFault
			return
		}
		total += uint64(len(p))
		i.charge(uint32(len(p)))
		i.output(fd, p)
	}
	if total > math.MaxUint32 {
		stack[0] = wasiInvalid
		return
	}
	var n [4]byte
	binary.LittleEndian.PutUint32(n[:], uint32(total))
	if !i.Write(written, n[:]) {
		stack[0] = wasiFault
		return
	}
	stack[0] = wasiOK
}

// output passes p to Options.Output, cut to what the call's limit of output leaves.
func (i *Instance) output(fd int32, p []byte) {
	p = p[:min(len(p), i.outputLeft)]
	i.outputLeft -= len(p)
	if len(p) > 0 && i.engine.options.Output != nil {
		i.hadEffect = true
		i.engine.options.Output(i, fd, p)
	}
}

// The layout of poll_oneoff's arguments.
const (
	subscriptionSize = 48
	eventSize        = 32
	eventClock       = 0
	clockAbsolute    = 1
	maxSubscriptions = 256
)

// wasiPoll returns at once. Descriptors are invalid. A wait for the clock ends by advancing the call's clock to the
// earliest deadline, without making the goroutine wait.
func wasiPoll(i *Instance, stack []uint64) {
	in, out, count, occurred := uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	i.charge(0)
	if count == 0 || count > maxSubscriptions {
		stack[0] = wasiInvalid
		return
	}
	i.charge(count * (subscriptionSize + eventSize))
	subscriptions, ok := i.Read(in, count*subscriptionSize)
	events, ok2 := i.Read(out, count*eventSize)
	if !ok || !ok2 {
		stack[0] = wasiFault
		return
	}
	stack[0] = wasiOK
	began := i.clock
	if !i.passTime(subscriptions) {
		stack[0] = wasiInvalid
		return
	}
	var n uint32
	for s := subscriptions; len(s) > 0; s = s[subscriptionSize:] {
		kind := s[8]
		if kind == eventClock && deadline(s, began) > i.clock {
			continue
		}
		e := events[n*eventSize : (n+1)*eventSize]
		userdata := binary.LittleEndian.Uint64(s)
		clear(e)
		binary.LittleEndian.PutUint64(e, userdata)
		if kind != eventClock {
			binary.LittleEndian.PutUint16(e[8:], wasiBadFD)
		}
		e[10] = kind
		n++
	}
	var number [4]byte
	binary.LittleEndian.PutUint32(number[:], n)
	if !i.Write(occurred, number[:]) {
		stack[0] = wasiFault
	}
}

// passTime advances the clock to the earliest deadline, unless there is a subscription for a descriptor, which is ready
// at once. It returns false if a subscription's kind does not exist.
func (i *Instance) passTime(subscriptions []byte) bool {
	earliest := int64(math.MaxInt64)
	for s := subscriptions; len(s) > 0; s = s[subscriptionSize:] {
		switch s[8] {
		case eventClock:
			earliest = min(earliest, deadline(s, i.clock))
		case 1, 2: // a descriptor to read or to write
			earliest = i.clock
		default:
			return false
		}
	}
	i.clock = max(i.clock, earliest)
	return true
}

// deadline returns the time for which a clock subscription waits. began is the time of the call of poll_oneoff, to
// which a relative timeout is added.
func deadline(s []byte, began int64) int64 {
	t := binary.LittleEndian.Uint64(s[24:])
	if binary.LittleEndian.Uint16(s[40:])&clockAbsolute == 0 {
		t += uint64(began)
		if t < uint64(began) {
			return math.MaxInt64
		}
	}
	return int64(min(t, math.MaxInt64))
}

// envFunctions are the functions that AssemblyScript guests import.
var envFunctions = []Import{
	{Name: "abort", Params: []ValueType{I32, I32, I32, I32}, Func: envAbort},
}

// maxAbortText limits each string that env.abort reads, in bytes of UTF-16.
const maxAbortText = 512

// envAbort is AssemblyScript's abort(message, file, line, column). It writes message and location to standard error,
// and ends the call. Both strings are UTF-16 with their size in bytes in front of them; address 0 stands for no string.
func envAbort(i *Instance, stack []uint64) {
	i.charge(2 * maxAbortText)
	text := append([]byte("panic: "), i.utf16Text(stack[0])...)
	if file := i.utf16Text(stack[1]); len(file) > 0 {
		text = fmt.Appendf(text, " at %s:%d:%d", file, uint32(stack[2]), uint32(stack[3]))
	}
	i.output(2, append(text, '\n'))
	panic(endAbort)
}

// utf16Text returns the text of an AssemblyScript string.
func (i *Instance) utf16Text(addr uint64) []byte { return appendUTF16(nil, i.abortText(uint32(addr))) }

// abortText returns the bytes of an AssemblyScript string. An invalid string is empty or cut, because the call ends
// anyway.
func (i *Instance) abortText(addr uint32) []byte {
	if addr < 4 {
		return nil
	}
	size, ok := i.Read(addr-4, 4)
	if !ok {
		return nil
	}
	text, ok := i.Read(addr, min(binary.LittleEndian.Uint32(size), maxAbortText)&^1)
	if !ok {
		return nil
	}
	return text
}

// appendUTF16 appends little-endian UTF-16 as UTF-8. Unpaired surrogates become the replacement character.
func appendUTF16(dst, text []byte) []byte {
	for len(text) >= 2 {
		r := rune(binary.LittleEndian.Uint16(text))
		text = text[2:]
		if utf16.IsSurrogate(r) {
			second := rune(0)
			if len(text) >= 2 {
				second = rune(binary.LittleEndian.Uint16(text))
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				text = text[2:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}
