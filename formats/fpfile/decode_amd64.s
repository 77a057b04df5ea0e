#include "textflag.h"

// 0 … 31 as 16-bit numbers.
DATA iota16<>+0(SB)/8, $0x0003000200010000
DATA iota16<>+8(SB)/8, $0x0007000600050004
DATA iota16<>+16(SB)/8, $0x000b000a00090008
DATA iota16<>+24(SB)/8, $0x000f000e000d000c
DATA iota16<>+32(SB)/8, $0x0013001200110010
DATA iota16<>+40(SB)/8, $0x0017001600150014
DATA iota16<>+48(SB)/8, $0x001b001a00190018
DATA iota16<>+56(SB)/8, $0x001f001e001d001c
GLOBL iota16<>(SB), RODATA|NOPTR, $64

// 0 … 7 in every 64-bit lane, as bytes.
DATA iota8<>+0(SB)/8, $0x0706050403020100
GLOBL iota8<>(SB), RODATA|NOPTR, $8

// func onesAVX512(dst *uint16, high *uint64, words int, flip uint64, from int) int
//
// Each half word of 32 bits chooses, of the numbers of its bits, those of ones.
TEXT ·onesAVX512(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         high+8(FP), SI
	MOVQ         words+16(FP), CX
	MOVQ         flip+24(FP), R8
	MOVQ         from+32(FP), R9
	MOVQ         DI, DX
	VPBROADCASTW R9, Z0
	VPADDW       iota16<>(SB), Z0, Z0
	MOVL         $32, AX
	VPBROADCASTW AX, Z1

words:
	MOVQ           (SI), AX
	XORQ           R8, AX
	KMOVD          AX, K1
	VPCOMPRESSW.Z  Z0, K1, Z2
	VMOVDQU16      Z2, (DI)
	POPCNTL        AX, BX
	LEAQ           (DI)(BX*2), DI
	VPADDW         Z1, Z0, Z0
	SHRQ           $32, AX
	KMOVD          AX, K2
	VPCOMPRESSW.Z  Z0, K2, Z3
	VMOVDQU16      Z3, (DI)
	POPCNTL        AX, BX
	LEAQ           (DI)(BX*2), DI
	VPADDW         Z1, Z0, Z0
	ADDQ           $8, SI
	DECQ           CX
	JNZ            words
	SUBQ           DX, DI
	SHRQ           $1, DI
	MOVQ           DI, ret+40(FP)
	VZEROUPPER
	RET

// func joinAVX512(dst *uint64, at *uint16, low *byte, groups, w int, first uint64) bool
//
// Eight keys take w bytes of the low part, so that every group begins at a byte and lane j
// finds its low bits at the same place: in the 8 bytes from byte j·w/8 on, j·w mod 8 bits up.
TEXT ·joinAVX512(SB), NOSPLIT, $0-49
	MOVQ         dst+0(FP), DI
	MOVQ         at+8(FP), SI
	MOVQ         low+16(FP), DX
	MOVQ         groups+24(FP), CX
	MOVQ         w+32(FP), R8
	VPBROADCASTQ first+40(FP), Z10

	VPMOVZXWQ    iota16<>(SB), Z0   // number of the key, from 0
	VPBROADCASTQ R8, Z1
	VPMULLQ      Z0, Z1, Z2         // j·w
	MOVQ         $7, AX
	VPBROADCASTQ AX, Z3
	VPANDQ       Z2, Z3, Z4         // shift of lane j
	VPSRLQ       $3, Z2, Z2
	MOVQ         $0x0101010101010101, AX
	VPBROADCASTQ AX, Z5
	VPMULLQ      Z5, Z2, Z2         // its byte, in all 8 bytes of the lane …
	VPBROADCASTQ iota8<>(SB), Z6
	VPADDB       Z6, Z2, Z2         // … and the 7 after it
	MOVQ         $1, AX
	SHLXQ        R8, AX, AX
	DECQ         AX
	VPBROADCASTQ AX, Z7             // mask
	MOVQ         $8, AX
	VPBROADCASTQ AX, Z8
	MOVQ         R8, X9
	VMOVDQA64    Z10, Z11           // the keys before
	KXORB        K0, K0, K0         // lanes that are not above the one before

groups:
	VPMOVZXWQ    (SI), Z12
	VPSUBQ       Z0, Z12, Z12
	VPSLLQ       X9, Z12, Z12
	VMOVDQU64    (DX), Z13
	VPERMB       Z13, Z2, Z13
	VPSRLVQ      Z4, Z13, Z13
	VPTERNLOGQ   $0xf8, Z7, Z13, Z12 // high | low & mask
	VPADDQ       Z10, Z12, Z12
	VMOVDQU64    Z12, (DI)
	VALIGNQ      $7, Z11, Z12, Z14
	VPCMPUQ      $2, Z14, Z12, K1
	KORB         K1, K0, K0
	VMOVDQA64    Z12, Z11
	VPADDQ       Z8, Z0, Z0
	ADDQ         $16, SI
	ADDQ         R8, DX
	ADDQ         $64, DI
	DECQ         CX
	JNZ          groups
	KTESTB       K0, K0
	SETEQ        ret+48(FP)
	VZEROUPPER
	RET
