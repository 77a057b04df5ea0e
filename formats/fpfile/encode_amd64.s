#include "textflag.h"

// 0 … 7 as 64-bit numbers.
DATA iota64<>+0(SB)/8, $0
DATA iota64<>+8(SB)/8, $1
DATA iota64<>+16(SB)/8, $2
DATA iota64<>+24(SB)/8, $3
DATA iota64<>+32(SB)/8, $4
DATA iota64<>+40(SB)/8, $5
DATA iota64<>+48(SB)/8, $6
DATA iota64<>+56(SB)/8, $7
GLOBL iota64<>(SB), RODATA|NOPTR, $64

// func packAVX512(low *byte, at *uint16, keys *uint64, groups, w int, first uint64, l *lanes)
TEXT ·packAVX512(SB), NOSPLIT, $0-56
	MOVQ         low+0(FP), DI
	MOVQ         at+8(FP), DX
	MOVQ         keys+16(FP), SI
	MOVQ         groups+24(FP), CX
	MOVQ         w+32(FP), R8
	VPBROADCASTQ first+40(FP), Z10
	MOVQ         l+48(FP), R9
	VMOVDQU64    (R9), Z2
	VMOVDQU64    64(R9), Z3
	KMOVQ        128(R9), K1
	KMOVQ        136(R9), K2

	VMOVDQU64    iota64<>(SB), Z0   // number of the key, from 0
	VPBROADCASTQ R8, Z1
	VPMULLQ      Z0, Z1, Z4
	MOVQ         $7, AX
	VPBROADCASTQ AX, Z5
	VPANDQ       Z4, Z5, Z4         // shift of lane j
	MOVQ         $1, AX
	SHLXQ        R8, AX, AX
	DECQ         AX
	VPBROADCASTQ AX, Z7             // mask
	MOVQ         $8, AX
	VPBROADCASTQ AX, Z8
	MOVQ         R8, X9

groups:
	VMOVDQU64 (SI), Z11
	VPSUBQ    Z10, Z11, Z11
	VPANDQ    Z7, Z11, Z12
	VPSLLVQ   Z4, Z12, Z12
	VPERMB.Z  Z12, Z2, K1, Z13
	VPERMB.Z  Z12, Z3, K2, Z14
	VPORQ     Z13, Z14, Z13
	VMOVDQU64 Z13, (DI)
	VPSRLQ    X9, Z11, Z11
	VPADDQ    Z0, Z11, Z11
	VPMOVQW   Z11, (DX)
	VPADDQ    Z8, Z0, Z0
	ADDQ      $64, SI
	ADDQ      $16, DX
	ADDQ      R8, DI
	DECQ      CX
	JNZ       groups
	VZEROUPPER
	RET

// func marksAVX512(dst *uint64, marks *byte, words int)
TEXT ·marksAVX512(SB), NOSPLIT, $0-24
	MOVQ   dst+0(FP), DI
	MOVQ   marks+8(FP), SI
	MOVQ   words+16(FP), CX
	VPXORQ Z1, Z1, Z1

words:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 Z1, (SI)
	VPTESTMB  Z0, Z0, K1
	KMOVQ     K1, (DI)
	ADDQ      $64, SI
	ADDQ      $8, DI
	DECQ      CX
	JNZ       words
	VZEROUPPER
	RET
