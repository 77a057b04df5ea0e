#include "go_asm.h"
#include "textflag.h"

// The same as clmul_amd64.s, which explains it, in registers of 16 bytes.

DATA shift<>+0x00(SB)/8, $0x8080808080808080
DATA shift<>+0x08(SB)/8, $0x8080808080808080
DATA shift<>+0x10(SB)/8, $0x0706050403020100
DATA shift<>+0x18(SB)/8, $0x0f0e0d0c0b0a0908
DATA shift<>+0x20(SB)/8, $0x8080808080808080
DATA shift<>+0x28(SB)/8, $0x8080808080808080
GLOBL shift<>(SB), RODATA|NOPTR, $48

#define FOLD(K, X, T) \
	VPMULL  K.D1, X.D1, T.Q1;  \
	VPMULL2 K.D2, X.D2, X.Q1;  \
	VEOR    T.B16, X.B16, X.B16

// func clmul(k *folding, fp uint64, b *byte, n, wide int) uint64
TEXT ·clmul(SB), NOSPLIT, $0-48
	MOVD k+0(FP), R0
	MOVD fp+8(FP), R1
	MOVD b+16(FP), R2
	MOVD n+24(FP), R3
	ADD  $folding_by128, R0, R4
	VLD1 (R4), [V15.B16]

	// The first n mod 16 bytes.
	AND  $15, R3, R5
	MOVD $shift<>(SB), R6
	ADD  R5, R6
	VLD1 (R6), [V4.B16, V5.B16]
	VEOR V1.B16, V1.B16, V1.B16
	VMOV R1, V1.D[0]
	VLD1 (R2), [V0.B16]
	VEOR V1.B16, V0.B16, V0.B16
	VTBL V4.B16, [V0.B16], V0.B16
	VTBL V5.B16, [V1.B16], V1.B16
	ADD  R5, R2
	SUB  R5, R3
	FOLD(V15, V0, V4)
	VEOR V1.B16, V0.B16, V0.B16

	CMP $64, R3
	BLT next

	// Four registers.
	VLD1.P 64(R2), [V8.B16, V9.B16, V10.B16, V11.B16]
	VEOR   V8.B16, V0.B16, V0.B16
	VMOV   V9.B16, V1.B16
	VMOV   V10.B16, V2.B16
	VMOV   V11.B16, V3.B16
	ADD    $folding_by512, R0, R4
	VLD1   (R4), [V14.B16]

four:
	SUB    $64, R3
	CMP    $64, R3
	BLT    fourInOne
	VLD1.P 64(R2), [V8.B16, V9.B16, V10.B16, V11.B16]
	FOLD(V14, V0, V4)
	FOLD(V14, V1, V5)
	FOLD(V14, V2, V6)
	FOLD(V14, V3, V7)
	VEOR   V8.B16, V0.B16, V0.B16
	VEOR   V9.B16, V1.B16, V1.B16
	VEOR   V10.B16, V2.B16, V2.B16
	VEOR   V11.B16, V3.B16, V3.B16
	B      four

fourInOne:
	ADD  $folding_by384, R0, R4
	VLD1 (R4), [V12.B16, V13.B16] // and by256, which follows
	FOLD(V12, V0, V4)
	FOLD(V13, V1, V5)
	FOLD(V15, V2, V6)
	VEOR V1.B16, V0.B16, V0.B16
	VEOR V2.B16, V0.B16, V0.B16
	VEOR V3.B16, V0.B16, V0.B16
	B    more

	// Block by block.
next:
	VLD1.P 16(R2), [V2.B16]
	VEOR   V2.B16, V0.B16, V0.B16
	SUB    $16, R3

more:
	CBZ R3, reduce
	FOLD(V15, V0, V4)
	B   next

reduce:
	VEOR   V7.B16, V7.B16, V7.B16
	VEXT   $8, V15.B16, V15.B16, V16.B16
	VPMULL V16.D1, V0.D1, V1.Q1
	VEXT   $8, V7.B16, V0.B16, V0.B16
	VEOR   V1.B16, V0.B16, V0.B16

	ADD    $folding_barrett, R0, R4
	VLD1   (R4), [V3.B16]
	VEXT   $8, V3.B16, V3.B16, V4.B16
	VPMULL V3.D1, V0.D1, V1.Q1
	VPMULL V4.D1, V1.D1, V2.Q1
	VEOR   V2.B16, V0.B16, V0.B16
	VMOV   V0.D[1], R5
	VMOV   V1.D[0], R6
	EOR    R6, R5
	MOVD   R5, ret+40(FP)
	RET
