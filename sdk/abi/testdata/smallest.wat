(module
  (import "sluice" "text" (func $text (param i32 i32 i32 i32)))
  (import "sluice" "finish" (func $finish (param i32 i32 i32 i32)))
  (import "sluice" "done" (func $done (param i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "Hello from a plugin.")

  (func (export "sluice_abi_v1") (result i32) (i32.const 0))

  ;; The second page of the memory is the input buffer; this plugin accepts no larger input.
  (func (export "sluice_buffer") (param $size i32) (result i32)
    (if (result i32) (i32.gt_u (local.get $size) (i32.const 65536))
      (then (i32.const 0))
      (else (i32.const 65536))))

  (func (export "sluice_configure") (param $binding i32) (param $length i32) (result i32)
    (i32.const 0))

  (func (export "provider_request") (param $binding i32) (param $length i32) (result i32)
    (call $text (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 20))
    (call $finish (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
    (call $done (i32.const 0))
    (i32.const 0)))
