package host

import "unsafe"

// Bytes returns the bytes of s without copying them. They must not be changed.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Address returns the address of b's memory, which the import functions and sluice_buffer pass to the gateway.
func Address(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// Offset returns where part begins within whole; ok is false if it is not a range of the same memory.
func Offset(whole, part []byte) (offset int, ok bool) {
	first, at := uintptr(Address(whole)), uintptr(Address(part))
	return int(at - first), at >= first && at+uintptr(len(part)) <= first+uintptr(len(whole))
}
