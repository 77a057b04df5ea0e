#include "go_asm.h"
#include "textflag.h"

// Carry-less multiplication folds the message as in Intel's "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ Instruction" (2009), for
// reflected bits. A register of 16 bytes holds a polynomial of degree 127, the
// coefficient of x¹²⁷ in bit 0. Its low half H and high half L stand for
// H·x⁶⁴ + L; the product of two halves A and B, read as a register, is A·B·x.

// shift: 16 bytes from offset r shift a register up by 16-r bytes when given to
// PSHUFB; 16 bytes from offset 16+r shift it down by r.
DATA shift<>+0x00(SB)/8, $0x8080808080808080
DATA shift<>+0x08(SB)/8, $0x8080808080808080
DATA shift<>+0x10(SB)/8, $0x0706050403020100
DATA shift<>+0x18(SB)/8, $0x0f0e0d0c0b0a0908
DATA shift<>+0x20(SB)/8, $0x8080808080808080
DATA shift<>+0x28(SB)/8, $0x8080808080808080
GLOBL shift<>(SB), RODATA|NOPTR, $48

// X = X·x^D, less than degree 128, where K is folding.byD.
#define FOLD(K, X, T) \
	MOVO      X, T;           \
	PCLMULQDQ $0x00, K, X;    \
	PCLMULQDQ $0x11, K, T;    \
	PXOR      T, X

// Z = Z·x^D in each of four lanes, plus the next 64 bytes at SRC.
#define FOLD4(K, Z, T, SRC) \
	VPCLMULQDQ $0x00, K, Z, T;   \
	VPCLMULQDQ $0x11, K, Z, Z;   \
	VPTERNLOGQ $0x96, SRC, T, Z

// func clmul(k *folding, fp uint64, b *byte, n, wide int) uint64
TEXT ·clmul(SB), NOSPLIT, $0-48
	MOVQ  k+0(FP), DI
	MOVQ  fp+8(FP), X1
	MOVQ  b+16(FP), SI
	MOVQ  n+24(FP), CX
	MOVOU folding_by128(DI), X15

	// The first n mod 16 bytes, behind zeros, which do not change a polynomial.
	// fp is added to the first eight bytes; what exceeds the n mod 16 comes after.
	MOVQ   CX, AX
	ANDQ   $15, AX
	LEAQ   shift<>(SB), DX
	MOVOU  (SI), X0
	PXOR   X1, X0
	MOVOU  (DX)(AX*1), X2
	PSHUFB X2, X0
	MOVOU  16(DX)(AX*1), X2
	PSHUFB X2, X1
	ADDQ   AX, SI
	SUBQ   AX, CX
	FOLD(X15, X0, X2)
	PXOR   X1, X0

	// From here X0 waits to be added to the next block; CX bytes, whole blocks.
	CMPQ CX, wide+32(FP)
	JGE  wide
	CMPQ CX, $64
	JB   next

	// Four registers, each folded by 512 bits, over what comes 64 bytes later.
	MOVOU (SI), X2
	PXOR  X2, X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVOU folding_by512(DI), X14

four:
	ADDQ  $64, SI
	SUBQ  $64, CX
	CMPQ  CX, $64
	JB    fourInOne
	FOLD(X14, X0, X4)
	FOLD(X14, X1, X5)
	FOLD(X14, X2, X6)
	FOLD(X14, X3, X7)
	MOVOU (SI), X8
	MOVOU 16(SI), X9
	MOVOU 32(SI), X10
	MOVOU 48(SI), X11
	PXOR  X8, X0
	PXOR  X9, X1
	PXOR  X10, X2
	PXOR  X11, X3
	JMP   four

fourInOne:
	MOVOU folding_by384(DI), X12
	MOVOU folding_by256(DI), X13
	FOLD(X12, X0, X4)
	FOLD(X13, X1, X5)
	FOLD(X15, X2, X6)
	PXOR  X1, X0
	PXOR  X2, X0
	PXOR  X3, X0
	JMP   more

	// The same with registers of four blocks.
wide:
	VMOVDQA         X0, X0                // zeroes the other lanes
	VPXORQ          (SI), Z0, Z0
	CMPQ            CX, $256
	JB              wideOne
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	VBROADCASTI32X4 folding_by2048(DI), Z8

wideFour:
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JB   wideFourInOne
	FOLD4(Z8, Z0, Z4, 0(SI))
	FOLD4(Z8, Z1, Z5, 64(SI))
	FOLD4(Z8, Z2, Z6, 128(SI))
	FOLD4(Z8, Z3, Z7, 192(SI))
	JMP  wideFour

wideFourInOne:
	VBROADCASTI32X4 folding_by1536(DI), Z9
	VBROADCASTI32X4 folding_by1024(DI), Z10
	VBROADCASTI32X4 folding_by512(DI), Z11
	FOLD4(Z9, Z0, Z4, Z3)
	FOLD4(Z10, Z1, Z5, Z0)
	FOLD4(Z11, Z2, Z6, Z1)
	VMOVDQA64       Z2, Z0
	JMP             wideMore

wideOne:
	VBROADCASTI32X4 folding_by512(DI), Z11
	ADDQ            $64, SI
	SUBQ            $64, CX

wideMore:
	CMPQ CX, $64
	JB   wideLanes
	FOLD4(Z11, Z0, Z4, 0(SI))
	ADDQ $64, SI
	SUBQ $64, CX
	JMP  wideMore

wideLanes:
	// Lanes 0, 1, 2 by 384, 256, 128 bits onto lane 3, which by384's zeros drop.
	VEXTRACTI32X4 $3, Z0, X1
	VMOVDQU64     folding_by384(DI), Z2
	VPCLMULQDQ    $0x00, Z2, Z0, Z3
	VPCLMULQDQ    $0x11, Z2, Z0, Z0
	VPXORQ        Z3, Z0, Z0
	VEXTRACTI64X4 $1, Z0, Y2
	VPXOR         Y2, Y0, Y0
	VEXTRACTI128  $1, Y0, X2
	VPXOR         X2, X0, X0
	VPXOR         X1, X0, X0
	VZEROUPPER
	JMP           more

	// Block by block.
next:
	MOVOU (SI), X2
	PXOR  X2, X0
	ADDQ  $16, SI
	SUBQ  $16, CX

more:
	TESTQ CX, CX
	JZ    reduce
	FOLD(X15, X0, X2)
	JMP   next

reduce:
	// H·x¹²⁷·x + L·x⁶⁴: the message times x⁶⁴, again in 128 bits.
	MOVO      X0, X1
	PCLMULQDQ $0x10, X15, X1
	PSRLDQ    $8, X0
	PXOR      X1, X0

	// Barrett: the quotient Q is H·floor(x¹²⁷/P)·x without its lower half; the
	// remainder is L + Q·P, of which the lower half is Q + Q·floor(P/x)·x.
	MOVOU     folding_barrett(DI), X3
	MOVO      X0, X1
	PCLMULQDQ $0x00, X3, X1
	MOVO      X1, X2
	PCLMULQDQ $0x10, X3, X2
	PXOR      X2, X0
	PSRLDQ    $8, X0
	PXOR      X1, X0
	MOVQ      X0, ret+40(FP)
	RET
