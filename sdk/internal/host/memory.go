package host

import "unsafe"

// Bytes returns the bytes of s without copying them. They must not be changed.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Address returns the address of b's memory, for import functions and sluice_buffer to pass to the gateway.
func Address(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// Offset returns the index in whole at which part begins; ok is false if part is not a slice of whole's memory.
func Offset(whole, part []byte) (offset int, ok bool) {
	first, at := uintptr(Address(whole)), uintptr(Address(part))
	return int(at - first), at >= first && at+uintptr(len(part)) <= first+uintptr(len(whole))
}
