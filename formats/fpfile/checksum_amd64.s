#include "textflag.h"

// FOLD multiplies acc by the powers in k and adds b to it.
#define FOLD(k, b, acc, free) \
	VPCLMULQDQ $0x00, k, acc, free \
	VPCLMULQDQ $0x11, k, acc, acc  \
	VPTERNLOGQ $0x96, b, free, acc

// func foldAVX512(dst *[64]byte, b *byte, quads, more int, k *[4]uint64)
TEXT ·foldAVX512(SB), NOSPLIT, $0-40
	MOVQ            dst+0(FP), DI
	MOVQ            b+8(FP), SI
	MOVQ            quads+16(FP), CX
	MOVQ            more+24(FP), BX
	MOVQ            k+32(FP), DX
	VBROADCASTI32X4 (DX), Z15
	VBROADCASTI32X4 16(DX), Z14
	MOVL            $0xffffffff, AX
	VMOVD           AX, X4
	VPXORQ          (SI), Z4, Z0
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	ADDQ            $256, SI
	DECQ            CX

quads:
	FOLD(Z15, (SI), Z0, Z4)
	FOLD(Z15, 64(SI), Z1, Z5)
	FOLD(Z15, 128(SI), Z2, Z6)
	FOLD(Z15, 192(SI), Z3, Z7)
	ADDQ $256, SI
	DECQ CX
	JNZ  quads

	FOLD(Z14, Z1, Z0, Z4)
	FOLD(Z14, Z2, Z0, Z4)
	FOLD(Z14, Z3, Z0, Z4)
	TESTQ BX, BX
	JZ    done

more:
	FOLD(Z14, (SI), Z0, Z4)
	ADDQ $64, SI
	DECQ BX
	JNZ  more

done:
	VMOVDQU64 Z0, (DI)
	VZEROUPPER
	RET
